"""The charts of a page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from purgatory.printable import counted
from purgatory.spark.report import formatting
from purgatory.spark.report.content import CurvePoint, HotKey, Kind, KindSummary, Report, WheelRow
from purgatory.spark.report.formatting import duration, number, share, utc_time
from purgatory.spark.report.histograms import QUANTILE_NAMES
from purgatory.spark.report.page.plot import (
    PERCENTS,
    Plot,
    Scale,
    count_scale,
    draw,
    duration_scale,
    name_scale,
    rate,
    rate_scale,
    time_scale,
)
from purgatory.spark.report.tables import Figure, curves_of, data_of
from purgatory.trace.validation import OUTCOMES

# Most kinds with a bar; most lines until the reader chooses.
MAX_BARS: Final = 12
SHOWN_LINES: Final = 4
#: Of lines and dots.
COLOURS: Final = 6
_ROW: Final = 26  # pixels of a bar


class LegendEntry(NamedTuple):
    """A colour and its meaning; `css`: the class of its elements.

    `shown`: at first; None if the reader cannot hide the elements.
    """

    css: str
    label: str
    shown: bool | None = None


class Chart(NamedTuple):
    """A chart; `svg`: two elements."""

    title: str
    svg: str
    alternative: str
    data: Figure | None = None
    legend: Sequence[LegendEntry] = ()


def numbered_kinds(report: Report) -> dict[Kind, int]:
    """Return the kinds to show and their numbers: the total first, if not alone."""
    kinds = {row.kind: n for n, row in enumerate(report.summaries)}
    return {kind: n for kind, n in kinds.items() if len(kinds) > 2 or not kind.total}


def kind_legend(kinds: Mapping[Kind, int]) -> list[LegendEntry]:
    """Make a legend by which the reader chooses kinds."""
    if len(kinds) < 2:
        return []
    return [LegendEntry(kind_css(n), str(kind), n <= SHOWN_LINES) for kind, n in kinds.items()]


def kind_css(number: int) -> str:
    """Return the classes of a kind's elements: number, colour and dashes."""
    return f"k{number} c{number % COLOURS} d{number // COLOURS}"


def _plot_of_rows(labels: Iterable[str], x: Scale, *, narrow: bool) -> Plot:
    shown = [formatting.name(label, 16 if narrow else 32) for label in labels]
    return Plot(narrow, 60 + _ROW * len(shown), x, name_scale(shown), down=True)


_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def ends_over_time(report: Report) -> Chart:
    """Draw the number of operations that ended over time, by outcome."""
    width, long = report.bin_ms, duration(report.bin_ms)
    counts = _counts_by_bin(report)
    highest = max(map(sum, counts.values()))
    present = [o for n, o in enumerate(OUTCOMES) if any(row[n] for row in counts.values())]

    def paint(narrow: bool) -> Plot:
        plot = _plot_over_time(report, highest, "ended", narrow=narrow)
        for start, row in counts.items():
            floor = 0
            for outcome, count in zip(OUTCOMES, row, strict=True):
                if count:
                    tip = f"{utc_time(start, width)}: {count:,} {outcome}"
                    plot.box((start, start + width), (floor, floor + count), outcome, tip)
                    floor += count
        return plot

    peak = max(counts, key=lambda start: sum(counts[start]))
    alternative = (
        f"Bars, {long} each, of operations that ended. Most, {highest:,}, in the {long} from "
        f"{utc_time(peak, width)} UTC."
    )
    title = f"Ends over time, each bar {long}"
    rows = [(at, *row) for at, row in counts.items()]
    data = Figure("ends", ("start_ms", *OUTCOMES), rows)
    return Chart(title, draw(paint), alternative, data, [LegendEntry(o, o) for o in present])


def _counts_by_bin(report: Report) -> dict[int, tuple[int, ...]]:
    sums: dict[int, tuple[int, ...]] = {}
    for row in report.bins:
        before = sums.get(row.start_ms, (0,) * len(OUTCOMES))
        sums[row.start_ms] = tuple(map(int.__add__, before, row[2:]))
    return sums


def _plot_over_time(report: Report, highest: int, what: str, *, narrow: bool) -> Plot:
    edges = (report.bins[0].start_ms, report.bins[-1].start_ms + report.bin_ms)
    head = f"{what} per {duration(report.bin_ms)}"
    x, y = time_scale(edges, narrow=narrow), count_scale(highest)
    return Plot(narrow, 280, x, y, heads=("", head))


def completions_of_kinds(report: Report) -> Chart:
    """Draw completions over time, for each kind."""
    kinds = {kind: n for kind, n in numbered_kinds(report).items() if not kind.total}
    lines = {kind: [row for row in report.bins if row.kind == kind] for kind in kinds}
    highest = max((row.completed for row in report.bins), default=0)
    starts = range(report.bins[0].start_ms, report.bins[-1].start_ms + report.bin_ms, report.bin_ms)

    def paint(narrow: bool) -> Plot:
        plot = _plot_over_time(report, highest, "completed", narrow=narrow)
        for kind, rows in lines.items():
            counts = dict.fromkeys(starts, 0) | {row.start_ms: row.completed for row in rows}
            points = ((at + report.bin_ms / 2, n) for at, n in counts.items())
            plot.line(points, kind_css(kinds[kind]))
        return plot

    totals = (f"{kind} {sum(row.completed for row in rows):,}" for kind, rows in lines.items())
    alternative = f"Lines of completions over the same time. In all: {', '.join(totals)}."
    title = "Completed over time, by kind"
    return Chart(
        title, draw(paint), alternative, data_of(report, "ends-by-kind"), kind_legend(kinds)
    )


def outcome_shares(report: Report) -> Chart:
    """Draw each kind's shares of outcomes."""
    rows = [row for row in report.summaries if row.kind in numbered_kinds(report)]
    title, rows = _largest("Outcomes by kind", rows)

    def paint(narrow: bool) -> Plot:
        kinds = (str(row.kind) for row in rows)
        plot = _plot_of_rows(kinds, PERCENTS, narrow=narrow)
        for place, row in enumerate(rows):
            left = 0.0
            for outcome in OUTCOMES:
                part = getattr(row, outcome) / row.operations
                if part:
                    x, y = (left, left + 100 * part), (place - 0.35, place + 0.35)
                    plot.box(x, y, outcome, f"{row.kind}: {share(part)} {outcome}")
                    left += 100 * part
        return plot

    said = (f"{row.kind} {share(row.completed / row.operations)}" for row in rows)
    alternative = f"Bars with the share that completed: {', '.join(said)}."
    legend = [LegendEntry(o, o) for o in OUTCOMES if any(getattr(row, o) for row in rows)]
    return Chart(title, draw(paint), alternative, data_of(report, "kinds"), legend)


def _largest(title: str, rows: list[KindSummary]) -> tuple[str, list[KindSummary]]:
    shown = rows[:MAX_BARS]
    kinds = sum(not row.kind.total for row in shown)
    return (title if shown == rows else f"{title}: the {kinds} largest kinds"), shown


def draw_week(
    title: str, data: Figure, value: Callable[[Any], float], shown: Callable[..., str], thing: str
) -> Chart:
    """Draw a field for each hour of the week; rows begin with weekday, hour and count."""
    fields = [(row[0], row[1], value(row), row[2]) for row in data.rows]
    most = max(fields, key=itemgetter(2))
    highest = most[2] or 1

    def paint(narrow: bool) -> Plot:
        hours = Scale(0, 24, [(h, f"{h:02d}") for h in range(0, 24, 6 if narrow else 2)])
        plot = Plot(narrow, 236 if narrow else 250, hours, name_scale(_DAYS), down=True)
        for day, hour, part, size in fields:
            x, y = (hour, hour + 1), (day - 0.5, day + 0.5)
            tip = f"{_hour(day, hour)}: {shown(part)} ({counted(size, thing)})"
            # The square root shows differences between small values.
            depth = f"{0.06 + 0.94 * (part / highest) ** 0.5:.2f}"
            plot.box(x, y, "heat", tip, fill_opacity=depth)
        return plot

    legend = [LegendEntry("heat", f"up to {shown(highest)}; fainter is less")]
    alternative = (
        "A field for each hour of the week, darker for more. "
        f"Most, {shown(most[2])}, on {_hour(most[0], most[1])}."
    )
    return Chart(title, draw(paint), alternative, data, legend)


def _hour(weekday: int, hour: int) -> str:
    return f"{_DAYS[weekday]} {hour:02d}:00"


def hot_keys(report: Report, keys: Sequence[HotKey]) -> Chart:
    """Draw the hottest keys."""
    watched = any(row.watched is not None for row in keys)
    highest = max(max(row.watched or 0, row.completed) for row in keys)

    def paint(narrow: bool) -> Plot:
        x = count_scale(highest * 1.2, 2 if narrow else 4)
        plot = _plot_of_rows((row.key for row in keys), x, narrow=narrow)
        for place, row in enumerate(keys):
            tip = _key_in_words(row)
            if watched:
                plot.box((0, row.watched or 0), (place - 0.38, place + 0.38), "range", tip)
            inner = 0.2 if watched else 0.38
            plot.box((0, row.completed), (place - inner, place + inner), "completed", tip)
            longest = max(row.watched or 0, row.completed)
            plot.text(plot.x(longest) + 4, plot.y(place) + 4, formatting.count(longest))
        return plot

    legend = [LegendEntry("completed", "operations that it completed")]
    if watched:
        legend.insert(0, LegendEntry("range", "operations that watch it"))
    said = "; ".join(map(_key_in_words, keys[:3]))
    alternative = f"Bars of the {len(keys)} hottest keys. First: {said}."
    return Chart("The hottest keys", draw(paint), alternative, data_of(report, "hot-keys"), legend)


def _key_in_words(row: HotKey) -> str:
    watched = "" if row.watched is None else f"watched by {row.watched:,}, "
    return f"{formatting.name(row.key)} {watched}completed {row.completed:,}"


def wheels(report: Report, chosen: WheelRow) -> Chart:
    """Draw each wheel's wake-ups, and mark the chosen wheel."""
    rows = report.wheels
    sizes = sorted({row.wheel_size for row in rows})
    ticks = sorted({row.tick_ms for row in rows})

    def paint(narrow: bool) -> Plot:
        x = Scale(-0.3, len(ticks) - 0.7, [*enumerate(map(duration, ticks))])
        y = rate_scale([row.wakeups_per_second for row in rows])
        plot = Plot(narrow, 260, x, y, heads=("tick", "wake-ups a second"))
        for n, size in enumerate(sizes):
            of_size = [row for row in rows if row.wheel_size == size]
            places = [(ticks.index(row.tick_ms), rate(row.wakeups_per_second)) for row in of_size]
            plot.line(places, kind_css(n))
            for row, place in zip(of_size, places, strict=True):
                css = "chosen" if row == chosen else kind_css(n)
                tip = f"size {size}: {number(row.wakeups_per_second)} a second"
                plot.dot(*place, css, tip)
        return plot

    legend = [LegendEntry(kind_css(n), f"size {size}") for n, size in enumerate(sizes)]
    legend.append(LegendEntry("chosen", "recommended"))
    calm = min(rows, key=lambda row: row.wakeups_per_second)
    alternative = (
        f"A line a wheel size. Fewest wake-ups: {number(calm.wakeups_per_second)} a "
        f"second at a tick of {duration(calm.tick_ms)} and size {calm.wheel_size}. "
        f"Recommended: {number(chosen.wakeups_per_second)} at "
        f"{duration(chosen.tick_ms)} and size {chosen.wheel_size}."
    )
    return Chart("Wake-ups", draw(paint), alternative, data_of(report, "wheels"), legend)


_HEADS = ("time since submission", "still waiting")


def timeout_choice(report: Report, kind: Kind) -> Chart:
    """Draw how many of a kind still wait after a time, and timeouts."""
    curve = report.curves[kind]
    summary = next(row for row in report.summaries if row.kind == kind)
    points = [s.point for s in report.suggestions if s.kind == kind and s.point is not None]
    proposed = next((f.proposed for f in report.findings if f.summary.kind == kind), None)

    def paint(narrow: bool) -> Plot:
        marks = _marks(summary, points, proposed, narrow=narrow)
        x = duration_scale([*_seen(curve), *(value for value, _, _ in marks)], narrow=narrow)
        plot = Plot(narrow, 330, x, PERCENTS, heads=_HEADS, marks=marks)
        plot.line(_still_waiting(curve), "c1", steps=True)
        plot.markers()
        return plot

    said = dict.fromkeys(map(_reached, points))
    now = duration(summary.timeouts_ms[1])
    alternative = (
        f"A falling curve of the operations of {kind} that still wait. Completed: "
        f"{', '.join(said) or 'none'}. The timeout now: {now}, which completes "
        f"{share(summary.now.share)}."
    )
    is_uniform = summary.timeouts_ms[0] == summary.timeouts_ms[2]
    legend = [
        LegendEntry("c1", "still waiting (estimate)"),
        LegendEntry("now", "timeout now" if is_uniform else "median timeout now"),
        LegendEntry("candidate", "shortest timeout for a share of completions"),
        *([LegendEntry("proposed", "proposed")] if proposed else []),
    ]
    title, data = f"Timeouts for {kind}", curves_of(report, kind)
    return Chart(title, draw(paint), alternative, data, legend)


def _reached(point: CurvePoint) -> str:
    return f"{share(point.share)} within {duration(point.timeout_ms)}"


def _marks(
    summary: KindSummary, points: Sequence[CurvePoint], proposed: CurvePoint | None, *, narrow: bool
) -> list[tuple[float, str, str]]:
    marks = {}
    for point in points:
        cost = "" if narrow else f", wait {duration(point.mean_wait_ms)}"
        label = f"{share(point.share)}: {duration(point.timeout_ms)}{cost}"
        marks[point.timeout_ms] = (label, "candidate")
    if proposed is not None:
        label = f"proposed: {duration(proposed.timeout_ms)}"
        marks[proposed.timeout_ms] = (label, "proposed")
    now = summary.timeouts_ms[1]
    marks[now] = (f"now: {duration(now)}", "now")
    return [(value, *mark) for value, mark in marks.items()]


def survival(report: Report) -> Chart:
    """Draw how many of each kind still wait after a time."""
    kinds = numbered_kinds(report)
    curves = {kind: report.curves[kind] for kind in kinds}

    def paint(narrow: bool) -> Plot:
        drawn = [wait for curve in curves.values() for wait in _seen(curve)]
        x = duration_scale(drawn, narrow=narrow)
        plot = Plot(narrow, 320, x, PERCENTS, heads=_HEADS)
        for kind, curve in curves.items():
            plot.line(_still_waiting(curve), kind_css(kinds[kind]), steps=True)
        for kind, _, point in report.suggestions:
            if point is not None and kind in kinds:
                css, tip = kind_css(kinds[kind]), f"{kind}: {_reached(point)}"
                plot.dot(point.timeout_ms, 100 * (1 - point.share), css, tip)
        return plot

    said = (
        f"of {kind} {share(1 - curve[-1].share)} after {duration(curve[-1].timeout_ms)}"
        for kind, curve in [*curves.items()][: SHOWN_LINES + 1]
    )
    ends = ", ".join(said)
    alternative = f"Falling curves of the operations that still wait, at their ends: {ends}."
    title = "Still waiting after a time, by kind"
    return Chart(title, draw(paint), alternative, curves_of(report), kind_legend(kinds))


def _seen(curve: Sequence[CurvePoint]) -> list[float]:
    return [p.timeout_ms for p in curve if p.share >= 0.005] or [p.timeout_ms for p in curve]


def _still_waiting(curve: Sequence[CurvePoint]) -> list[tuple[float, float]]:
    return [(0, 100), *((p.timeout_ms, 100 * (1 - p.share)) for p in curve)]


def quantiles(
    report: Report, title: str, values: Callable[[KindSummary], tuple[int, ...]]
) -> Chart:
    """Draw quantiles of a duration by kind."""
    kinds = numbered_kinds(report)
    rows = [row for row in report.summaries if row.kind in kinds and values(row)]
    title, rows = _largest(title, rows)

    def paint(narrow: bool) -> Plot:
        x = duration_scale([v for row in rows for v in values(row)], narrow=narrow)
        plot = _plot_of_rows((str(row.kind) for row in rows), x, narrow=narrow)
        for place, row in enumerate(rows):
            plot.line([(values(row)[0], place), (values(row)[-1], place)], "range")
            for n, (name, value) in enumerate(zip(QUANTILE_NAMES, values(row), strict=True)):
                plot.dot(value, place, f"c{n}", f"{row.kind}: {name} {duration(value)}")
        return plot

    said = []
    for row in rows[:5]:
        pairs = zip(QUANTILE_NAMES, map(duration, values(row)), strict=True)
        said.append(f"{row.kind} {', '.join(f'{name} {value}' for name, value in pairs)}")
    legend = [LegendEntry(f"c{n}", name) for n, name in enumerate(QUANTILE_NAMES)]
    return Chart(title, draw(paint), f"{'; '.join(said)}.", data_of(report, "kinds"), legend)
