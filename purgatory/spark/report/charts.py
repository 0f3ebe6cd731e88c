"""The charts of a report, each made from rows of the report.

A chart also has a text alternative, for screen readers. Call from one thread at a time, see `svg`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from purgatory.spark.report import formatting
from purgatory.spark.report.aggregates import QUANTILES
from purgatory.spark.report.axes import (
    counts_axis,
    duration_axis,
    duration_steps,
    names_axis,
    time_axis,
)
from purgatory.spark.report.svg import CANCELLED, COMPLETED, EXPIRED, FAINT, SERIES, Canvas, draw

if TYPE_CHECKING:
    from purgatory.spark.report.rows import Bin, CurvePoint, HotKey, Kind, KindSummary, WheelRow

# At most so many kinds have a line or a bar of their own in a chart.
MAX_LINES: Final = 5
MAX_BARS: Final = 12
_OUTCOMES: Final = {"completed": COMPLETED, "expired": EXPIRED, "cancelled": CANCELLED}
_ROW_HEIGHT: Final = 24


class Chart(NamedTuple):
    """A chart: title, two SVG elements, and a text alternative."""

    title: str
    svg: str
    alternative: str


def ends_over_time(bins: Sequence[Bin], bin_ms: int) -> Chart:
    """Draw the number of operations that ended over time, by outcome."""
    starts, counts = _series(bins, bin_ms, lambda row: row[2:])
    edges = [*starts, starts[-1] + bin_ms]

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        floor = np.zeros(len(starts))
        for number, (outcome, colour) in enumerate(_OUTCOMES.items()):
            height = counts[:, number]
            if height.any():
                axes.stairs(
                    floor + height, edges, baseline=floor, fill=True, color=colour, label=outcome
                )
            floor = floor + height
        time_axis(axes, edges, canvas)
        counts_axis(axes, vertical=True)
        axes.set_ylabel(f"ended per {formatting.duration(bin_ms)}")
        _legend(canvas)

    sums = counts.sum(axis=1)
    peak = int(sums.argmax())
    width = formatting.duration(bin_ms)
    alternative = (
        f"Bars, {formatting.duration(bin_ms)} each, of operations that ended between "
        f"{formatting.utc_time(edges[0], bin_ms)} and "
        f"{formatting.utc_time(edges[-1], bin_ms)} UTC. "
        f"Most, {sums[peak]:,}, in the {width} from {formatting.utc_time(starts[peak], bin_ms)}."
    )
    return Chart("Ends over time", draw("ends", paint, height=280), alternative)


def completions_of_kinds(bins: Sequence[Bin], bin_ms: int, kinds: Sequence[Kind]) -> Chart:
    """Draw completed operations over time, for the largest kinds."""
    lines = {kind: [row for row in bins if row.kind == kind] for kind in kinds[:MAX_LINES]}
    starts, _ = _series(bins, bin_ms, lambda row: row[2:])

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for colour, (kind, rows) in zip(SERIES, lines.items(), strict=False):
            counts = dict.fromkeys(starts, 0) | {row.start_ms: row.completed for row in rows}
            middles = [start + bin_ms / 2 for start in counts]
            axes.plot(middles, [*counts.values()], color=colour, label=_label(kind, canvas))
        time_axis(axes, [*starts, starts[-1] + bin_ms], canvas)
        counts_axis(axes, vertical=True)
        axes.set_ylabel(f"completed per {formatting.duration(bin_ms)}")
        _legend(canvas)

    totals = (f"{kind} {sum(row.completed for row in rows):,}" for kind, rows in lines.items())
    alternative = f"Lines of completions over the same time. In all: {', '.join(totals)}."
    return Chart("Completions over time, by kind", draw("kinds", paint, height=260), alternative)


def outcome_shares(summaries: Sequence[KindSummary]) -> Chart:
    """Draw the shares of each kind that completed, expired and were cancelled."""
    rows = summaries[:MAX_BARS]

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        places = range(len(rows))
        left = np.zeros(len(rows))
        for outcome, colour in _OUTCOMES.items():
            shares = np.array([100 * getattr(row, outcome) / row.operations for row in rows])
            if shares.any():
                axes.barh(places, shares, left=left, color=colour, label=outcome, height=0.7)
            left = left + shares
        names_axis(axes, [_label(row.kind, canvas) for row in rows])
        axes.set_xlim(0, 100)
        axes.set_xlabel("percent of operations")
        _legend(canvas)

    said = (f"{row.kind} {formatting.share(row.completed / row.operations)}" for row in rows)
    alternative = f"Bars with the share that completed: {', '.join(said)}."
    return Chart("Outcomes by kind", draw("shares", paint, height=_bars(rows)), alternative)


def quantiles(
    plot_id: str,
    title: str,
    summaries: Sequence[KindSummary],
    values: Callable[[KindSummary], tuple[int, ...]],
) -> Chart:
    """Draw quantiles of a duration by kind, on a logarithmic axis."""
    rows = [row for row in summaries[:MAX_BARS] if values(row)]
    names = [_quantile_name(q) for q in QUANTILES]

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for place, row in enumerate(rows):
            axes.plot([values(row)[0], values(row)[-1]], [place, place], color=FAINT, zorder=1)
        for number, (colour, name) in enumerate(zip(SERIES, names, strict=False)):
            dots = [values(row)[number] for row in rows]
            axes.scatter(dots, range(len(rows)), color=colour, label=name, s=42, zorder=2)
        duration_axis(axes, [value for row in rows for value in values(row)], canvas)
        names_axis(axes, [_label(row.kind, canvas) for row in rows])
        _legend(canvas)

    said = (
        f"{row.kind} "
        + ", ".join(
            f"{n} {formatting.duration(v)}" for n, v in zip(names, values(row), strict=True)
        )
        for row in rows[:MAX_LINES]
    )
    return Chart(title, draw(plot_id, paint, height=_bars(rows)), f"{'; '.join(said)}.")


def completion_curves(curves: Sequence[CurvePoint], kinds: Sequence[Kind]) -> Chart:
    """Draw the share of operations that would complete within each timeout."""
    lines = _curves(curves, kinds)
    drawn = [point for points in lines.values() for point in points]
    # Leave out the timeouts within which almost nothing completes.
    seen = [p.timeout_ms for p in drawn if p.share >= 0.005] or [p.timeout_ms for p in drawn]

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for colour, (kind, points) in zip(SERIES, lines.items(), strict=False):
            waits, shares = [p.timeout_ms for p in points], [100 * p.share for p in points]
            axes.step(waits, shares, where="post", color=colour, label=_label(kind, canvas))
        duration_axis(axes, seen, canvas)
        axes.set_ylim(0, 102)
        axes.set_ylabel("percent completed")
        axes.set_xlabel("timeout")
        _legend(canvas)

    said = (
        f"{kind} reaches {formatting.share(points[-1].share)} "
        f"at {formatting.duration(points[-1].timeout_ms)}"
        for kind, points in lines.items()
    )
    return Chart(
        "Completed within a timeout", draw("curves", paint), f"Rising curves: {'; '.join(said)}."
    )


def waiting_costs(curves: Sequence[CurvePoint], kinds: Sequence[Kind]) -> Chart:
    """Draw the average wait of an operation over the share that completes."""
    lines = _curves(curves, kinds)

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        for colour, (kind, points) in zip(SERIES, lines.items(), strict=False):
            shares, waits = [100 * p.share for p in points], [p.mean_wait_ms for p in points]
            axes.plot(shares, waits, color=colour, label=_label(kind, canvas))
        duration_steps(axes, max(p.mean_wait_ms for points in lines.values() for p in points))
        axes.set_xlim(0, 102)
        axes.set_xlabel("percent completed")
        axes.set_ylabel("average wait")
        _legend(canvas)

    said = (
        f"{kind} {formatting.duration(points[-1].mean_wait_ms)} "
        f"for {formatting.share(points[-1].share)}"
        for kind, points in lines.items()
    )
    return Chart(
        "What completions cost in waiting",
        draw("costs", paint),
        f"Rising curves of the average wait of an operation, at their ends: {'; '.join(said)}.",
    )


def hot_keys(keys: Sequence[HotKey]) -> Chart:
    """Draw the hottest keys of all kinds."""
    watched = any(row.watched is not None for row in keys)

    def paint(canvas: Canvas) -> None:
        axes = canvas.axes()
        places = np.arange(len(keys))
        if watched:
            axes.barh(
                places - 0.2,
                [row.watched or 0 for row in keys],
                0.38,
                color=FAINT,
                label="watch it",
            )
        shift = 0.2 if watched else 0.0
        counts = [row.completed for row in keys]
        axes.barh(places + shift, counts, 0.38, color=COMPLETED, label="completed by it")
        names_axis(axes, [formatting.name(row.key, canvas.name_length) for row in keys])
        counts_axis(axes, vertical=False)
        axes.set_xlabel("operations")
        _legend(canvas)

    said = (
        f"{formatting.name(row.key)} {formatting.count(row.watched if watched else row.completed)}"
        for row in keys[:3]
    )
    alternative = f"Bars of the {len(keys)} hottest keys, first {', '.join(said)}."
    return Chart("The hottest keys", draw("keys", paint, height=_bars(keys) + 30), alternative)


_WHEEL_PLOTS: Final[Mapping[str, Callable[[WheelRow], float]]] = {
    "wake-ups a second": lambda row: row.wakeups_per_second,
    "moves an operation": lambda row: row.moves_per_operation,
    "buckets occupied": lambda row: row.buckets,
}


def wheels(rows: Sequence[WheelRow]) -> Chart:
    """Draw what wheels of each tick and size would have done."""
    sizes = sorted({row.wheel_size for row in rows})

    def paint(canvas: Canvas) -> None:
        grid = (3, 1) if canvas.narrow else (1, 3)
        for number, (title, value) in enumerate(_WHEEL_PLOTS.items()):
            axes = canvas.figure.add_subplot(*grid, number + 1)
            for colour, size in zip(SERIES, sizes, strict=False):
                points = [(row.tick_ms, value(row)) for row in rows if row.wheel_size == size]
                label = f"size {size}" if number == 0 else None
                axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=label)
            axes.set_title(title)
            counts_axis(axes, vertical=True)
            duration_axis(axes, [row.tick_ms for row in rows], canvas, at_values=True)
        _legend(canvas)

    calm = min(rows, key=lambda row: row.wakeups_per_second)
    still = min(rows, key=lambda row: row.moves_per_operation)
    alternative = (
        f"Three small plots over the tick, a line a wheel size. Fewest wake-ups: "
        f"{formatting.number(calm.wakeups_per_second)} a second at a tick of "
        f"{formatting.duration(calm.tick_ms)} and size {calm.wheel_size}. Fewest moves: "
        f"{formatting.number(still.moves_per_operation)} an operation at "
        f"{formatting.duration(still.tick_ms)} and size {still.wheel_size}."
    )
    return Chart("Wheels", draw("wheels", paint, height=270, narrow_height=640), alternative)


def _series(
    bins: Iterable[Bin], bin_ms: int, counts: Callable[[Bin], tuple[int, ...]]
) -> tuple[list[int], Any]:
    """Return the starts of all bins and the counts by outcome."""
    sums: dict[int, Any] = {}
    for row in bins:
        sums[row.start_ms] = sums.get(row.start_ms, 0) + np.array(counts(row))
    starts = [*range(min(sums), max(sums) + bin_ms, bin_ms)]
    return starts, np.array([sums.get(start, np.zeros(3, int)) for start in starts])


def _curves(curves: Sequence[CurvePoint], kinds: Sequence[Kind]) -> dict[Kind, list[CurvePoint]]:
    return {kind: [p for p in curves if p.kind == kind] for kind in kinds[: len(SERIES)]}


def _label(kind: Kind, canvas: Canvas) -> str:
    # matplotlib leaves a line out of the legend if its label begins with an underscore.
    return "\N{ZERO WIDTH SPACE}" + formatting.name(str(kind), canvas.name_length)


def _quantile_name(share: float) -> str:
    return f"p{100 * share:g}"


def _bars(rows: Sequence[object]) -> int:
    return 110 + _ROW_HEIGHT * max(2, len(rows))


def _legend(canvas: Canvas) -> None:
    columns = 2 if canvas.narrow else 6
    canvas.figure.legend(
        loc="outside upper left", ncols=columns, handlelength=1.2, columnspacing=1.2
    )
