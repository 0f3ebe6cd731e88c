"""The charts of waits and timeouts. Pure functions; any thread may call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from purgatory.spark.report import figures, formatting
from purgatory.spark.report.histograms import QUANTILES
from purgatory.spark.report.page import scales
from purgatory.spark.report.page.chart import (
    MAX_BARS,
    SHOWN_LINES,
    Chart,
    LegendEntry,
    kind_css,
    kind_legend,
    numbered_kinds,
    row_names,
    rows_height,
)
from purgatory.spark.report.page.svg import Plot, draw

if TYPE_CHECKING:
    from purgatory.spark.report.content import Report
    from purgatory.spark.report.rows import CurvePoint, Kind, KindSummary

_NAMES = [f"p{100 * q:g}" for q in QUANTILES]
_HEADS = ("time since submission", "still waiting")


def timeout_choice(report: Report, kind: Kind) -> Chart:
    """Draw how many of a kind still wait after a time, and the timeouts to choose from."""
    curve = report.curves[kind]
    summary = next(row for row in report.summaries if row.kind == kind)
    points = [s.point for s in report.suggestions if s.kind == kind and s.point is not None]
    proposed = next((f.proposed for f in report.findings if f.summary.kind == kind), None)

    def paint(narrow: bool) -> Plot:
        marks = _marks(summary, points, proposed, narrow=narrow)
        drawn = [*_seen(curve), *(value for value, _, _ in marks)]
        plot = Plot(
            narrow,
            330,
            scales.durations(drawn, narrow=narrow),
            scales.percent(),
            heads=_HEADS,
            top=_label_lines(marks),
        )
        plot.line(_still_waiting(curve), "c1", steps=True)
        plot.markers(marks)
        return plot

    said = [
        f"{formatting.share(p.share)} within {formatting.duration(p.timeout_ms)}" for p in points
    ]
    now = formatting.duration(summary.timeouts_ms[1])
    alternative = (
        f"A falling curve of the operations of {kind} that still wait. Completed: "
        f"{', '.join(dict.fromkeys(said)) or 'none'}. The timeout now: {now}, which completes "
        f"{formatting.share(summary.now.share)}."
    )
    title = f"Timeouts for {kind}"
    legend = [
        LegendEntry("c1", "still waiting (estimate)"),
        LegendEntry("now", "timeout now" if _uniform(summary) else "median timeout now"),
        LegendEntry("candidate", "shortest timeout for a share of completions"),
        *([LegendEntry("proposed", "proposed")] if proposed else []),
    ]
    data = figures.curves(report, kind)
    return Chart(title, draw(paint), alternative, data, legend)


def _uniform(summary: KindSummary) -> bool:
    return summary.timeouts_ms[0] == summary.timeouts_ms[2]


def _marks(
    summary: KindSummary, points: Sequence[CurvePoint], proposed: CurvePoint | None, *, narrow: bool
) -> list[tuple[float, str, str]]:
    """Return the vertical lines of a choice: each timeout once, with what it costs."""
    marks = {}
    for point in points:
        cost = "" if narrow else f", wait {formatting.duration(point.mean_wait_ms)}"
        label = f"{formatting.share(point.share)}: {formatting.duration(point.timeout_ms)}{cost}"
        marks[point.timeout_ms] = (label, "candidate")
    if proposed is not None:
        label = f"proposed: {formatting.duration(proposed.timeout_ms)}"
        marks[proposed.timeout_ms] = (label, "proposed")
    now = summary.timeouts_ms[1]
    marks[now] = (f"now: {formatting.duration(now)}", "now")
    return [(value, *mark) for value, mark in marks.items()]


def _label_lines(marks: Sequence[object]) -> int:
    return min(4, len(marks))


def survival(report: Report) -> Chart:
    """Draw how many operations of each kind still wait after a time."""
    kinds = numbered_kinds(report)
    curves = {kind: report.curves[kind] for kind in kinds}

    def paint(narrow: bool) -> Plot:
        drawn = [wait for curve in curves.values() for wait in _seen(curve)]
        x = scales.durations(drawn, narrow=narrow)
        plot = Plot(narrow, 320, x, scales.percent(), heads=_HEADS)
        for kind, curve in curves.items():
            plot.line(_still_waiting(curve), kind_css(kinds[kind]), steps=True)
        for kind, _, point in report.suggestions:
            if point is not None and kind in kinds:
                reached, within = (
                    formatting.share(point.share),
                    formatting.duration(point.timeout_ms),
                )
                place = point.timeout_ms, 100 * (1 - point.share)
                plot.dot(*place, kind_css(kinds[kind]), f"{kind}: {reached} within {within}")
        return plot

    said = (
        f"of {kind} {formatting.share(1 - curve[-1].share)} after "
        f"{formatting.duration(curve[-1].timeout_ms)}"
        for kind, curve in [*curves.items()][: SHOWN_LINES + 1]
    )
    alternative = (
        f"Falling curves of the operations that still wait, at their ends: {', '.join(said)}."
    )
    title = "Still waiting after a time, by kind"
    return Chart(title, draw(paint), alternative, figures.curves(report), kind_legend(kinds))


def _seen(curve: Sequence[CurvePoint]) -> list[float]:
    """Return the waits of a curve without those within which almost nothing completes."""
    return [p.timeout_ms for p in curve if p.share >= 0.005] or [p.timeout_ms for p in curve]


def _still_waiting(curve: Sequence[CurvePoint]) -> list[tuple[float, float]]:
    return [(0, 100), *((p.timeout_ms, 100 * (1 - p.share)) for p in curve)]


def quantiles(
    report: Report, title: str, values: Callable[[KindSummary], tuple[int, ...]]
) -> Chart:
    """Draw quantiles of a duration by kind."""
    kinds = numbered_kinds(report)
    rows = [row for row in report.summaries if row.kind in kinds and values(row)][:MAX_BARS]

    def paint(narrow: bool) -> Plot:
        x = scales.durations([v for row in rows for v in values(row)], narrow=narrow)
        labels = row_names((str(row.kind) for row in rows), narrow=narrow)
        plot = Plot(narrow, rows_height(rows), x, scales.names(labels), down=True)
        for place, row in enumerate(rows):
            plot.line([(values(row)[0], place), (values(row)[-1], place)], "range")
            for number, (name, value) in enumerate(zip(_NAMES, values(row), strict=True)):
                tip = f"{row.kind}: {name} {formatting.duration(value)}"
                plot.dot(value, place, f"c{number}", tip)
        return plot

    alternative = f"{'; '.join(_quantiles_in_words(row.kind, values(row)) for row in rows[:5])}."
    legend = [LegendEntry(f"c{n}", name) for n, name in enumerate(_NAMES)]
    return Chart(title, draw(paint), alternative, figures.kinds(report), legend)


def _quantiles_in_words(kind: Kind, values: Sequence[int]) -> str:
    pairs = zip(_NAMES, map(formatting.duration, values), strict=True)
    return f"{kind} {', '.join(f'{name} {value}' for name, value in pairs)}"
