"""Prints a report in the terminal, as tables for 80 columns or more.

The page has more than that. Call from the thread that owns the console.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from purgatory.spark.report import formatting
from purgatory.spark.report.aggregates import QUANTILES
from purgatory.spark.report.cells import key_cells, wheel_cells

if TYPE_CHECKING:
    from rich.console import Console

    from purgatory.spark.report.report import Report
    from purgatory.spark.report.rows import KindSummary

_MAX_KEYS = 5
_NAME_WIDTH = 8  # minimum width of a name, in columns of the terminal


def print_report(report: Report, console: Console) -> None:
    """Print the tables of a report."""
    if not report.operations:
        console.print("There are no outcomes in the journal.")
        return
    _print(
        console,
        "Operations",
        *_without_zero_columns(_SUMMARY_HEADS, map(_summary, report.summaries)),
    )
    _print(console, "Timeouts suggested", _TIMEOUT_HEADS, _timeouts(report))
    if keys := [row for row in report.hot_keys if row.kind.total][:_MAX_KEYS]:
        _print(console, "Hottest keys", ["key", "watched by", "completed"], map(key_cells, keys))
    _print(console, "Wheels", *_without_zero_columns(_WHEEL_HEADS, map(wheel_cells, report.wheels)))


_SUMMARY_HEADS = (
    *("kind", "ended", "completed", "expired", "cancelled"),
    *(f"wait p{100 * q:g}" for q in QUANTILES),
    f"late p{100 * QUANTILES[-1]:g}",
)
_ZEROS = {formatting.share(0), formatting.duration(0)}


def _without_zero_columns(
    heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> tuple[Sequence[str], Iterable[Sequence[str]]]:
    """Drop columns of zeros only: few journals have cancelled or late operations."""
    columns = [
        (head, *cells)
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
        if not _ZEROS.issuperset(cells)
    ]
    kept, *kept_rows = zip(*columns, strict=True)
    return kept, kept_rows


def _summary(row: KindSummary) -> list[str]:
    return [
        str(row.kind),
        formatting.count(row.operations),
        *(
            formatting.share(n / row.operations)
            for n in (row.completed, row.expired, row.cancelled)
        ),
        *map(formatting.duration, row.waited_ms),
        formatting.duration(row.lateness_ms[-1]),
    ]


_TIMEOUT_HEADS = ("kind", "wanted", "timeout", "average wait")


def _timeouts(report: Report) -> Iterable[Sequence[str]]:
    """Make the rows for all kinds together."""
    for suggestion in report.suggestions:
        if suggestion.kind.total:
            wanted = formatting.share(suggestion.wanted)
            if (point := suggestion.point) is None:
                yield ["all kinds", wanted, "not seen", formatting.NOTHING]
                continue
            wait = formatting.duration(point.mean_wait_ms)
            yield ["all kinds", wanted, formatting.duration(point.timeout_ms), wait]


_WHEEL_HEADS = (
    *("tick", "size", "levels", "buckets", "cascades per op", "moves per op"),
    *("wake-ups per s", "late, average", "late, most"),
)


def _print(
    console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        if place:
            # On two lines, because the heads are wider than the figures below them.
            table.add_column(head.replace(" ", "\n", 1), justify="right", no_wrap=True)
        else:
            table.add_column(head, overflow="fold", min_width=_NAME_WIDTH)
    for first, *rest in rows:
        # As Text, which rich does not parse: a name in brackets is no markup.
        table.add_row(Text(formatting.name(first, 32)), *rest)
    console.print(table)
    console.print()
