"""The charts of counts: ends over time, shares, the week, hot keys, wheels.

Pure functions; any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark.report import figures, formatting
from purgatory.spark.report.page import scales
from purgatory.spark.report.page.chart import (
    MAX_BARS,
    OUTCOMES,
    Chart,
    LegendEntry,
    kind_css,
    kind_legend,
    numbered_kinds,
    outcome_legend,
    row_names,
    rows_height,
)
from purgatory.spark.report.page.svg import Plot, draw

if TYPE_CHECKING:
    from purgatory.spark.report.content import Report
    from purgatory.spark.report.rows import HotKey, WeekHour, WheelRow

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def ends_over_time(report: Report) -> Chart:
    """Draw the number of operations that ended over time, by outcome."""
    width = report.bin_ms
    counts = _counts_by_bin(report)
    highest = max(map(sum, counts.values()))
    present = [o for n, o in enumerate(OUTCOMES) if any(row[n] for row in counts.values())]

    def paint(narrow: bool) -> Plot:
        plot = _plot_over_time(report, highest, "ended", narrow=narrow)
        for start, row in counts.items():
            floor = 0
            for outcome, count in zip(OUTCOMES, row, strict=True):
                if count:
                    tip = f"{formatting.utc_time(start, width)}: {count:,} {outcome}"
                    plot.box((start, start + width), (floor, floor + count), outcome, tip)
                    floor += count
        return plot

    peak = max(counts, key=lambda start: sum(counts[start]))
    alternative = (
        f"Bars, {formatting.duration(width)} each, of operations that ended. Most, {highest:,}, in "
        f"the {formatting.duration(width)} from {formatting.utc_time(peak, width)} UTC."
    )
    title = f"Ends over time, each bar {formatting.duration(width)}"
    data = figures.Figure(
        "ends", ("start_ms", *OUTCOMES), [(at, *row) for at, row in counts.items()]
    )
    return Chart(title, draw(paint), alternative, data, outcome_legend(present))


def _counts_by_bin(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the counts by outcome of each bin, all kinds together."""
    sums: dict[int, tuple[int, ...]] = {}
    for row in report.bins:
        before = sums.get(row.start_ms, (0,) * len(OUTCOMES))
        sums[row.start_ms] = tuple(map(int.__add__, before, row[2:]))
    return sums


def _plot_over_time(report: Report, highest: int, what: str, *, narrow: bool) -> Plot:
    edges = (report.bins[0].start_ms, report.bins[-1].start_ms + report.bin_ms)
    head = f"{what} per {formatting.duration(report.bin_ms)}"
    x, y = scales.times(edges, narrow=narrow), scales.counts(highest)
    return Plot(narrow, 280, x, y, heads=("", head))


def completions_of_kinds(report: Report) -> Chart:
    """Draw completed operations over time, for each kind."""
    kinds = {kind: n for kind, n in numbered_kinds(report).items() if not kind.total}
    lines = {kind: [row for row in report.bins if row.kind == kind] for kind in kinds}
    highest = max((row.completed for row in report.bins), default=0)
    starts = range(report.bins[0].start_ms, report.bins[-1].start_ms + report.bin_ms, report.bin_ms)

    def paint(narrow: bool) -> Plot:
        plot = _plot_over_time(report, highest, "completed", narrow=narrow)
        for kind, rows in lines.items():
            counts = dict.fromkeys(starts, 0) | {row.start_ms: row.completed for row in rows}
            middle = report.bin_ms / 2
            plot.line(((at + middle, n) for at, n in counts.items()), kind_css(kinds[kind]))
        return plot

    totals = (f"{kind} {sum(row.completed for row in rows):,}" for kind, rows in lines.items())
    alternative = f"Lines of completions over the same time. In all: {', '.join(totals)}."
    title = "Completed over time, by kind"
    return Chart(title, draw(paint), alternative, figures.ends(report), kind_legend(kinds))


def outcome_shares(report: Report) -> Chart:
    """Draw the shares of each kind that completed, failed, expired and were cancelled."""
    rows = [row for row in report.summaries if row.kind in numbered_kinds(report)][:MAX_BARS]

    def paint(narrow: bool) -> Plot:
        labels = row_names((str(row.kind) for row in rows), narrow=narrow)
        plot = Plot(narrow, rows_height(rows), scales.percent(), scales.names(labels), down=True)
        for place, row in enumerate(rows):
            left = 0.0
            for outcome in OUTCOMES:
                share = getattr(row, outcome) / row.operations
                if share:
                    tip = f"{row.kind}: {formatting.share(share)} {outcome}"
                    x, y = (left, left + 100 * share), (place - 0.35, place + 0.35)
                    plot.box(x, y, outcome, tip)
                    left += 100 * share
        return plot

    said = (f"{row.kind} {formatting.share(row.completed / row.operations)}" for row in rows)
    alternative = f"Bars with the share that completed: {', '.join(said)}."
    legend = outcome_legend(o for o in OUTCOMES if any(getattr(row, o) for row in rows))
    return Chart("Outcomes by kind", draw(paint), alternative, figures.kinds(report), legend)


def submissions_by_hour(report: Report) -> Chart:
    """Draw how many operations were submitted in each hour of the week."""
    busiest = max(report.week, key=lambda row: row.operations)
    said = f"Most, {busiest.operations:,}, on {_hour(busiest)}."
    return _heat_map(
        report,
        "Operations submitted, by hour of the week (UTC)",
        lambda row: row.operations,
        formatting.number,
        said,
    )


def expired_by_hour(report: Report) -> Chart:
    """Draw which share of the operations submitted in each hour of the week expired."""
    worst = max(report.week, key=_expired_share)
    said = f"Most, {formatting.share(_expired_share(worst))}, on {_hour(worst)}."
    title = "Share that expired, by hour of the week of the submission (UTC)"
    return _heat_map(report, title, _expired_share, formatting.share, said)


def _expired_share(row: WeekHour) -> float:
    return row.expired / row.operations


def _hour(row: WeekHour) -> str:
    return f"{_DAYS[row.weekday]} {row.hour:02d}:00"


def _heat_map(
    report: Report,
    title: str,
    value: Callable[[WeekHour], float],
    shown: Callable[[float], str],
    said: str,
) -> Chart:
    highest = max(map(value, report.week)) or 1

    def paint(narrow: bool) -> Plot:
        hours = scales.Scale(0, 24, [(h, f"{h:02d}") for h in range(0, 24, 6 if narrow else 2)])
        plot = Plot(narrow, 236 if narrow else 250, hours, scales.names(_DAYS), down=True)
        for row in report.week:
            x, y = (row.hour, row.hour + 1), (row.weekday - 0.5, row.weekday + 0.5)
            tip = f"{_hour(row)}: {shown(value(row))} ({row.operations:,} operations)"
            # The square root, so that differences between small values are visible.
            depth = f"{0.06 + 0.94 * (value(row) / highest) ** 0.5:.2f}"
            plot.box(x, y, "heat", tip, fill_opacity=depth)
        return plot

    legend = [LegendEntry("heat", f"up to {shown(highest)}; lighter is less")]
    alternative = f"A field for each hour of the week, darker for more. {said}"
    return Chart(title, draw(paint), alternative, figures.week(report), legend)


def hot_keys(report: Report, keys: Sequence[HotKey]) -> Chart:
    """Draw the hottest keys, with their numbers."""
    watched = any(row.watched is not None for row in keys)
    highest = max(max(row.watched or 0, row.completed) for row in keys)

    def paint(narrow: bool) -> Plot:
        labels = row_names((row.key for row in keys), narrow=narrow)
        x = scales.counts(highest * 1.2, 2 if narrow else 4)
        plot = Plot(narrow, rows_height(keys), x, scales.names(labels), down=True)
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
    return Chart("The hottest keys", draw(paint), alternative, figures.hot_keys(report), legend)


def _key_in_words(row: HotKey) -> str:
    watched = "" if row.watched is None else f"watched by {row.watched:,}, "
    return f"{formatting.name(row.key)} {watched}completed {row.completed:,}"


def wheels(report: Report, chosen: WheelRow) -> Chart:
    """Draw how often wheels of each tick and size wake their thread, and mark the chosen one."""
    rows = report.wheels
    sizes = sorted({row.wheel_size for row in rows})
    ticks = sorted({row.tick_ms for row in rows})

    def paint(narrow: bool) -> Plot:
        x = scales.Scale(
            -0.3, len(ticks) - 0.7, [(n, formatting.duration(t)) for n, t in enumerate(ticks)]
        )
        y = scales.rates([row.wakeups_per_second for row in rows])
        plot = Plot(narrow, 260, x, y, heads=("tick", "wake-ups a second"))
        for number, size in enumerate(sizes):
            of_size = [row for row in rows if row.wheel_size == size]
            places = [
                (ticks.index(row.tick_ms), scales.rate(row.wakeups_per_second)) for row in of_size
            ]
            plot.line(places, kind_css(number))
            for row, place in zip(of_size, places, strict=True):
                css = "chosen" if row == chosen else kind_css(number)
                tip = f"size {size}: {formatting.number(row.wakeups_per_second)} a second"
                plot.dot(*place, css, tip)
        return plot

    legend = [LegendEntry(kind_css(n), f"size {size}") for n, size in enumerate(sizes)]
    legend.append(LegendEntry("chosen", "recommended"))
    calm = min(rows, key=lambda row: row.wakeups_per_second)
    alternative = (
        f"A line a wheel size. Fewest wake-ups: {formatting.number(calm.wakeups_per_second)} a "
        f"second at a tick of {formatting.duration(calm.tick_ms)} and size {calm.wheel_size}. "
        f"Recommended: {formatting.number(chosen.wakeups_per_second)} at "
        f"{formatting.duration(chosen.tick_ms)} and size {chosen.wheel_size}."
    )
    return Chart("Wake-ups", draw(paint), alternative, figures.wheels(report), legend)
