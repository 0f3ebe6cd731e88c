"""Rows of a report as cells of a table, for page and terminal.

Pure functions; any thread may call them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark.report.findings import MIN_OPERATIONS
from purgatory.spark.report.formatting import NOTHING, count, duration, name, number, share
from purgatory.spark.report.histograms import QUANTILES

if TYPE_CHECKING:
    from purgatory.spark.report.content import Report
    from purgatory.spark.report.rows import Change, CurvePoint, HotKey, Kind, KindSummary, WheelRow

_ZEROS: Final = {share(0), duration(0), count(0), NOTHING}


def without_empty_columns(
    heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    """Drop columns of zeros and nothing: few journals have failed or late operations."""
    columns = [
        (head, *cells)
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
        if not _ZEROS.issuperset(cells)
    ]
    kept, *kept_rows = zip(*columns, strict=True)
    return kept, kept_rows


def summary_heads() -> list[str]:
    """Return the heads of `summary_cells`."""
    return [
        *("kind", "no outcome", "ended", "completed", "failed", "expired", "cancelled"),
        *(f"wait p{100 * q:g}" for q in QUANTILES),
        f"late p{100 * QUANTILES[-1]:g}",
    ]


def summary_cells(row: KindSummary) -> list[str]:
    """Return a kind's counts, shares, waits of completed operations, and lateness."""
    unended = NOTHING if row.submitted is None else count(max(0, row.submitted - row.operations))
    shares = (row.completed, row.failed, row.expired, row.cancelled)
    waits = row.completed_waited_ms or (None,) * len(QUANTILES)
    return [
        str(row.kind),
        unended,
        count(row.operations),
        *(share(n / row.operations) for n in shares),
        *map(duration, waits),
        duration(row.lateness_ms[-1]),
    ]


def timeout_heads(report: Report) -> list[str]:
    """Return the heads of `timeout_cells`."""
    return ["kind", "now", *map(share, _wanted(report))]


def _wanted(report: Report) -> list[float]:
    return sorted({row.wanted for row in report.suggestions})


def timeout_cells(report: Report, kind: Kind) -> list[str]:
    """Return a kind's median timeout and the shortest ones for the wanted shares, with waits."""
    summary = next(row for row in report.summaries if row.kind == kind)
    points = {row.wanted: row.point for row in report.suggestions if row.kind == kind}
    now = f"{duration(summary.timeouts_ms[1])}\nwait {duration(summary.now.mean_wait_ms)}"
    return [str(kind), now, *(_timeout(points.get(wanted)) for wanted in _wanted(report))]


def _timeout(point: CurvePoint | None) -> str:
    if point is None:
        return "not seen"
    few = f" ({count(point.watched)})" if point.watched < MIN_OPERATIONS else ""
    return f"{duration(point.timeout_ms)}{few}\nwait {duration(point.mean_wait_ms)}"


def key_cells(row: HotKey) -> list[str]:
    """Return the cells of a hot key: name, watched, completed."""
    return [name(row.key), count(row.watched), count(row.completed)]


def change_cells(change: Change) -> list[str]:
    """Return the cells of a change: earlier and now of each figure."""
    periods = (change.earlier, change.now)
    waits = (change.earlier_waits_ms, change.waits_ms)
    pairs = [
        [count(row and row.operations) for row in periods],
        [share(row and row.completed / row.operations) for row in periods],
        *([duration(of[place]) for of in waits] for place in (0, 1)),
    ]
    return [str(change.kind), *(_pair(*pair) for pair in pairs)]


def _pair(earlier: str, now: str) -> str:
    return now if earlier == now else f"{earlier} \N{RIGHTWARDS ARROW} {now}"


def wheel_cells(row: WheelRow, *, chosen: bool = False) -> list[str]:
    """Return the cells of a row of the wheel tuning table; a chosen one is marked."""
    mark = " \N{CHECK MARK}" if chosen else ""
    size = f"{duration(row.tick_ms)} \N{MULTIPLICATION SIGN} {count(row.wheel_size)}{mark}"
    return [
        size.replace(" ", "\N{NO-BREAK SPACE}"),
        count(row.levels),
        number(row.buckets),
        number(row.cascades_per_operation),
        number(row.moves_per_operation),
        number(row.wakeups_per_second),
        duration(row.lateness_ms),
        duration(row.max_lateness_ms),
    ]
