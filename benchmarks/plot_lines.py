"""The plots of the benchmarks' page, in the manner of `purgatory.spark.report.page`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, copysign, floor, log10

from purgatory.spark.report import formatting
from purgatory.spark.report.page.charts import Chart, LegendEntry, kind_css
from purgatory.spark.report.page.plot import PERCENTS, Plot, Scale, count_scale, draw

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
# A colour for each, ours first; from the seventh on dashed.
STYLES = {peer: kind_css(number) for number, peer in enumerate(NAMES)}
# Ticks in milliseconds; between the middle ones the axis of lateness is nearly linear.
LATE_TICKS = (-100, -10, -1, 0, 1, 10, 100, 1000, 10_000)
TIME_UNITS = ((1000, "s"), (1, "ms"), (0.001, "us"), (0.000001, "ns"))

Points = Sequence[tuple[float, float]]
Steps = Sequence[Mapping[str, float]]


def costs(kind: str, sizes: Sequence[int], by_peer: Mapping[str, Sequence[float | None]]) -> Chart:
    """Plot nanoseconds a timer over the number of pending timers, a line for each peer."""
    lines = {
        peer: [(size, ns) for size, ns in zip(sizes, values, strict=True) if ns is not None]
        for peer, values in by_peer.items()
    }

    def paint(narrow: bool) -> Plot:
        x = _powers(sizes, _count)
        y = _powers(
            [ns for points in lines.values() for _, ns in points], lambda ns: time(ns / 1e6)
        )
        plot = Plot(narrow, 360, x, y, heads=("pending timers", "CPU time"))
        for peer, points in lines.items():
            plot.line([(log10(size), log10(ns)) for size, ns in points], STYLES[peer])
        return plot

    said = (
        f"{NAMES[peer]} {time(points[-1][1] / 1e6)} with {points[-1][0]:,}"
        for peer, points in lines.items()
        if points
    )
    title = f"{kind.capitalize()}, CPU time of one"
    return _chart(title, paint, f"A line a timer: {', '.join(said)}.", by_peer)


def lateness(by_peer: Mapping[str, Sequence[float]]) -> Chart:
    """Plot the share of timers over their lateness, a curve for each peer."""

    def paint(narrow: bool) -> Plot:
        least = min(-0.2, *(curve[0] for curve in by_peer.values()))
        most = max(1.0, *(curve[-1] for curve in by_peer.values()))
        shown = [tick for tick in LATE_TICKS if least <= tick <= most]
        ticks = [(_signed_log(tick), time(tick)) for tick in shown]
        x = Scale(_signed_log(least), _signed_log(most), ticks)
        plot = Plot(narrow, 360, x, PERCENTS, heads=("late by at most", "timers"))
        for peer, curve in by_peer.items():
            shares = [100 * place / (len(curve) - 1) for place in range(len(curve))]
            plot.line(zip(map(_signed_log, curve), shares, strict=True), STYLES[peer])
        return plot

    said = (
        f"{NAMES[peer]} {time(curve[len(curve) // 2])}, {time(curve[(len(curve) - 1) * 99 // 100])}"
        for peer, curve in by_peer.items()
    )
    alternative = f"Rising curves. Half and 99 percent are at most so late: {'; '.join(said)}."
    return _chart("Lateness, the share of timers", paint, alternative, by_peer)


def stalls(size: int, edges: Sequence[float], calls: Mapping[str, Sequence[int]]) -> Chart:
    """Plot a histogram of the durations of calls for each peer."""
    bounds = [edges[0] / 2, *edges, edges[-1] * 2]
    filled = [place for row in calls.values() for place, n in enumerate(row) if n]
    seen = bounds[min(filled) : max(filled) + 2]

    def paint(narrow: bool) -> Plot:
        y = _powers([1, *(n for row in calls.values() for n in row if n)], _count)
        plot = Plot(narrow, 300, _powers(seen, time), y, heads=("a call took", "calls"))
        for peer, row in calls.items():
            steps = [(log10(bounds[place]), log10(max(n, 0.5))) for place, n in enumerate(row)]
            plot.line(steps, STYLES[peer], steps=True)
        return plot

    said = []
    for peer, row in calls.items():
        last = max(place for place, count in enumerate(row) if count)
        said.append(f"{NAMES[peer]} {sum(row):,} calls, none longer than {time(bounds[last + 1])}")
    title = f"Waits of a thread that schedules while {size:,} are due"
    return _chart(title, paint, f"Histograms: {'; '.join(said)}.", calls)


def rates(by_profile: Mapping[str, Steps]) -> Chart:
    """Plot the rate reached over the rate wanted."""
    most = max(step["target"] for steps in by_profile.values() for step in steps)

    def paint(narrow: bool) -> Plot:
        heads = ("requests a second, wanted", "reached")
        plot = Plot(narrow, 300, count_scale(most, 4), count_scale(most), heads=heads)
        plot.line([(0, 0), (most, most)], "range")
        for number, steps in enumerate(by_profile.values()):
            plot.line([(step["target"], step["actual"]) for step in steps], kind_css(number))
        return plot

    said = (
        f"{profile} reaches {steps[-1]['actual']:,.0f} of {steps[-1]['target']:,.0f}"
        for profile, steps in by_profile.items()
    )
    alternative = f"Lines for low and high latency; at their ends {', '.join(said)}."
    legend = [LegendEntry(kind_css(n), profile) for n, profile in enumerate(by_profile)]
    legend.append(LegendEntry("range", "target"))
    return Chart("The rate that is kept", draw(paint), alternative, legend=legend)


def request_costs(by_profile: Mapping[str, Steps], seconds: float) -> Chart:
    """Plot CPU microseconds a request, and those of the load alone."""

    def cost(step: Mapping[str, float], name: str) -> float:
        return 1e6 * step[name] / (step["target"] * seconds)

    lines: dict[str, Points] = {}
    for profile, steps in by_profile.items():
        for name, label in (("cpu", profile), ("load_cpu", f"{profile}, load alone")):
            lines[label] = [(step["target"], cost(step, name)) for step in steps]

    def paint(narrow: bool) -> Plot:
        points = [point for line in lines.values() for point in line]
        x, y = (count_scale(max(values), 4) for values in zip(*points, strict=True))
        heads = ("requests a second, wanted", "CPU us a request")
        plot = Plot(narrow, 300, x, y, heads=heads)
        for number, line in enumerate(lines.values()):
            plot.line(line, kind_css(number))
        return plot

    said = (
        f"{profile} {cost(steps[-1], 'cpu'):.1f} us, {cost(steps[-1], 'load_cpu'):.1f} of them the "
        f"load's, at a target of {steps[-1]['target']:,.0f}"
        for profile, steps in by_profile.items()
    )
    alternative = f"Lines for low and high latency: {'; '.join(said)}."
    legend = [LegendEntry(kind_css(n), label) for n, label in enumerate(lines)]
    return Chart("CPU time of a request", draw(paint), alternative, legend=legend)


def _chart(
    title: str, paint: Callable[[bool], Plot], alternative: str, peers: Iterable[str]
) -> Chart:
    legend = [LegendEntry(STYLES[peer], NAMES[peer]) for peer in peers]
    return Chart(title, draw(paint), alternative, legend=legend)


def _powers(values: Sequence[float], label: Callable[[float], str]) -> Scale:
    """Show logarithms of positive values, with more ticks if there are few decades."""
    low, high = log10(min(values)), log10(max(values))
    digits = (1, 2, 5) if high - low < 2 else (1,)
    powers = range(floor(low), ceil(high) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    shown = [tick for tick in ticks if low - 0.05 <= log10(tick) <= high + 0.05]
    step = -(-len(shown) // 7) or 1
    return Scale(low - 0.05, high + 0.05, [(log10(tick), label(tick)) for tick in shown[::step]])


def _signed_log(value: float) -> float:
    return copysign(log10(1 + abs(value)), value)


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
