"""The plots of the benchmarks' page, in the manner of `purgatory.spark.report.charts`."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import LogLocator, NullFormatter

from purgatory.spark.report import formatting
from purgatory.spark.report.charts import Chart
from purgatory.spark.report.svg import CANCELLED, FAINT, SERIES, Canvas, draw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    "timingwheel": "timingwheel",
    "inline": "timingwheel, inline",
    "asyncio": "asyncio",
    "gevent": "gevent",
    "uvloop": "uvloop",
    "heap": "heap, no lock",
    "sched": "sched",
    "netty": "Netty, JVM",
    "jdk": "JDK, JVM",
}
# Our line is the broadest; those of the JVM are dashed.
STYLES: dict[str, dict[str, Any]] = {
    "timingwheel": {"color": SERIES[0], "linewidth": 3.5, "marker": "o"},
    "inline": {"color": SERIES[0], "linewidth": 2, "linestyle": "--"},
    "asyncio": {"color": SERIES[1], "marker": "s"},
    "gevent": {"color": SERIES[2], "marker": "^"},
    "uvloop": {"color": SERIES[3], "marker": "v"},
    "heap": {"color": SERIES[4], "marker": "D"},
    "sched": {"color": SERIES[5], "marker": "x"},
    "netty": {"color": CANCELLED, "marker": "P", "linestyle": "--", "linewidth": 2},
    "jdk": {"color": CANCELLED, "marker": "*", "linestyle": ":", "linewidth": 2},
}
PROFILES: dict[str, dict[str, Any]] = {
    "low": {"color": SERIES[1], "marker": "o"},
    "high": {"color": SERIES[2], "marker": "s"},
}
# Ticks in milliseconds; between the middle ones the axis of lateness is linear.
LATE_TICKS = (-100, -10, -1, 0, 1, 10, 100, 1000, 10_000)
TIME_UNITS = ((1000, "s"), (1, "ms"), (0.001, "us"), (0.000001, "ns"))


def costs(kind: str, sizes: Sequence[int], by_peer: Mapping[str, Sequence[float | None]]) -> Chart:
    """Plot nanoseconds a timer over the number of pending timers, a line for each peer."""
    lines = {
        peer: [(size, ns) for size, ns in zip(sizes, values, strict=True) if ns is not None]
        for peer, values in by_peer.items()
    }

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for peer, points in lines.items():
            if points:
                axes.plot(*zip(*points, strict=True), label=NAMES[peer], **STYLES[peer])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(sizes, [_count(size) for size in sizes])
        axes.set_xticks([], minor=True)
        shown = [ns for points in lines.values() for _, ns in points]
        # More ticks if there are few decades.
        digits = (1, 2, 5) if max(shown) < 100 * min(shown) else (1,)
        axes.yaxis.set_major_locator(LogLocator(subs=digits))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(lambda ns, _: time(ns / 1e6))
        axes.set_xlabel("pending timers")
        _legend(canvas)

    said = (
        f"{NAMES[peer]} {time(points[-1][1] / 1e6)} with {points[-1][0]:,}"
        for peer, points in lines.items()
        if points
    )
    title = f"{kind.capitalize()}, CPU time of one"
    chart = draw(f"costs-{kind}", paint, height=360, narrow_height=420)
    return Chart(title, chart, f"A line a timer: {', '.join(said)}.")


def lateness(by_peer: Mapping[str, Sequence[float]]) -> Chart:
    """Plot the share of timers over their lateness, a curve for each peer."""

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for peer, curve in by_peer.items():
            shares = [100 * place / (len(curve) - 1) for place in range(len(curve))]
            style = {**STYLES[peer], "marker": None}
            axes.plot(curve, shares, label=NAMES[peer], **style)
        least = min(curve[0] for curve in by_peer.values())
        most = max(curve[-1] for curve in by_peer.values())
        axes.set_xscale("symlog", linthresh=1, linscale=1.5)
        shown = [tick for tick in LATE_TICKS if 10 * least <= tick <= 10 * most or tick == 0]
        axes.set_xticks(shown, [time(tick) for tick in shown])
        axes.set_xticks([], minor=True)
        axes.set_xlim(min(least, -0.2), max(most, 1.0))
        axes.axvline(0, color=FAINT, zorder=0)
        axes.set_ylabel("percent of timers")
        axes.set_xlabel("late by at most")
        _legend(canvas)

    said = (
        f"{NAMES[peer]} {time(curve[len(curve) // 2])}, {time(curve[(len(curve) - 1) * 99 // 100])}"
        for peer, curve in by_peer.items()
    )
    alternative = f"Rising curves. Half and 99 percent are at most so late: {'; '.join(said)}."
    chart = draw("lateness", paint, height=360, narrow_height=420)
    return Chart("Lateness, the share of timers", chart, alternative)


def stalls(size: int, edges: Sequence[float], calls: Mapping[str, Sequence[int]]) -> Chart:
    """Plot a histogram of the durations of calls for each peer."""
    bounds = [edges[0] / 2, *edges, edges[-1] * 2]

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for peer, counts in calls.items():
            style = {name: value for name, value in STYLES[peer].items() if name != "marker"}
            axes.stairs(counts, bounds, baseline=0.5, label=NAMES[peer], **style)
        axes.set_xscale("log")
        axes.set_yscale("log")
        filled = [place for counts in calls.values() for place, n in enumerate(counts) if n]
        axes.set_xlim(bounds[min(filled)], bounds[max(filled) + 1])
        axes.set_ylim(bottom=0.5)
        axes.xaxis.set_major_formatter(lambda ms, _: time(ms))
        axes.yaxis.set_major_formatter(lambda count, _: _count(count))
        axes.set_xlabel("a call took")
        axes.set_ylabel("calls")
        _legend(canvas)

    said = []
    for peer, counts in calls.items():
        last = max(place for place, count in enumerate(counts) if count)
        said.append(
            f"{NAMES[peer]} {sum(counts):,} calls, none longer than {time(bounds[last + 1])}"
        )
    title = f"Waits of a thread that schedules while {size:,} are due"
    return Chart(title, draw(f"stalls-{size}", paint), f"Histograms: {'; '.join(said)}.")


def rates(by_profile: Mapping[str, Sequence[Mapping[str, float]]]) -> Chart:
    """Plot the rate reached over the rate wanted."""

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        most = max(step["target"] for steps in by_profile.values() for step in steps)
        axes.plot([0, most], [0, most], color=FAINT, linewidth=1, label="target")
        _profiles(axes, by_profile, lambda step: step["actual"])
        axes.yaxis.set_major_formatter(lambda rate, _: _count(rate))
        axes.set_ylabel("requests a second, reached")
        _legend(canvas)

    said = (
        f"{profile} reaches {steps[-1]['actual']:,.0f} of {steps[-1]['target']:,.0f}"
        for profile, steps in by_profile.items()
    )
    alternative = f"Lines for low and high latency; at their ends {', '.join(said)}."
    return Chart("The rate that is kept", draw("rates", paint), alternative)


def request_costs(by_profile: Mapping[str, Sequence[Mapping[str, float]]], seconds: float) -> Chart:
    """Plot CPU microseconds a request, and those of the load alone."""

    def cost(step: Mapping[str, float], name: str) -> float:
        return 1e6 * step[name] / (step["target"] * seconds)

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        _profiles(axes, by_profile, lambda step: cost(step, "cpu"))
        for profile, steps in by_profile.items():
            points = [(step["target"], cost(step, "load_cpu")) for step in steps]
            style = {**PROFILES[profile], "linestyle": ":"}
            axes.plot(*zip(*points, strict=True), label=f"{profile}, load alone", **style)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("CPU us a request")
        _legend(canvas)

    said = (
        f"{profile} {cost(steps[-1], 'cpu'):.1f} us, {cost(steps[-1], 'load_cpu'):.1f} of them the "
        f"load's, at a target of {steps[-1]['target']:,.0f}"
        for profile, steps in by_profile.items()
    )
    alternative = f"Lines for low and high latency: {'; '.join(said)}."
    return Chart("CPU time of a request", draw("request-costs", paint), alternative)


def _profiles(
    axes: "Axes",
    by_profile: Mapping[str, Sequence[Mapping[str, float]]],
    value: Callable[[Mapping[str, float]], float],
) -> None:
    for profile, steps in by_profile.items():
        points = [(step["target"], value(step)) for step in steps]
        axes.plot(*zip(*points, strict=True), label=profile, **PROFILES[profile])
    axes.xaxis.set_major_formatter(lambda rate, _: _count(rate))
    axes.set_xlabel("requests a second, wanted")


def time(ms: float) -> str:
    """Return a duration for an axis: "250 ns", "1.5 us", "20 ms"."""
    if ms == 0:
        return "0"
    size, unit = next((unit for unit in TIME_UNITS if abs(ms) >= unit[0] * 0.9995), TIME_UNITS[-1])
    return f"{formatting.number(round(ms / size, 6))} {unit}"


def _count(value: float) -> str:
    """Return a count in few letters: "10k", "3M"."""
    for size, letter in ((1_000_000, "M"), (1000, "k")):
        if value >= size:
            return f"{formatting.number(value / size)}{letter}"
    return formatting.number(value)


def _legend(canvas: Canvas) -> None:
    canvas.figure.legend(
        loc="outside upper left",
        ncols=2 if canvas.narrow else 4,
        handlelength=2.4,
        columnspacing=1.2,
    )
