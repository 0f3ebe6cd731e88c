"""Prints a report in the terminal, mostly in 80 columns.

Call from the thread that owns the console.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from purgatory.spark.report.comparison import changes_in_words
from purgatory.spark.report.content import Advice, JobsReport, Report
from purgatory.spark.report.findings import all_advice, headlines
from purgatory.spark.report.formatting import NOTHING, duration, name, share
from purgatory.spark.report.jobs import job_tables
from purgatory.spark.report.tables import (
    key_cells,
    summary_table,
    wheel_cells,
    without_empty_columns,
)
from purgatory.spark.report.wheel_tuning import choose_wheel

if TYPE_CHECKING:
    from rich.console import Console


_MAX_KEYS = 5
_NAME_WIDTH = 8  # least columns of a name
_ANY_WIDTH = 1000


def print_report(report: Report, console: Console) -> None:
    """Print advice, then the tables of a report."""
    if not report.operations and report.jobs is None:
        console.print("There are no outcomes in the journal.")
        return
    _print_advice(console, "\n".join(headlines(report)), all_advice(report))
    if report.jobs is not None:
        _print_jobs(report.jobs, console)
    if report.operations:
        _print_waits(report, console)


def _print_jobs(jobs: JobsReport, console: Console) -> None:
    heads, rows = job_tables.summary_table(jobs)
    _print(console, "Jobs", heads, rows)
    if jobs.errors:
        _print(console, "Errors of jobs", *job_tables.error_table(jobs))


def _print_waits(report: Report, console: Console) -> None:
    if report.changes:
        said = changes_in_words(list(report.changes))
        _print_advice(console, "What changed" if said else "Nothing changed notably.", said)
    one_kind = len(report.summaries) == 2
    summaries = [row for row in report.summaries if not (one_kind and row.kind.total)]
    _print(console, "Operations", *summary_table(summaries))
    _print(console, "Timeouts suggested", _TIMEOUT_HEADS, _timeouts(report))
    if keys := [row for row in report.hot_keys if row.kind.total][:_MAX_KEYS]:
        _print(console, "Hottest keys", ["key", "watched by", "completed"], map(key_cells, keys))
    if report.wheels:
        choice = choose_wheel(report.wheels, report.summaries[0].timeouts_ms[1])
        cells = [wheel_cells(row, chosen=row == choice.row) for row in report.wheels]
        _print(console, "Wheels", *without_empty_columns(_WHEEL_HEADS, cells))


def _print_advice(console: Console, head: str, advice: Iterable[Advice]) -> None:
    console.print(Text(head, style="bold"))
    for what, why, command in advice:
        # As Text, which rich does not parse for markup.
        console.print(Text(f"- {what}"))
        console.print(Padding(Text(why, style="dim"), (0, 0, 0, 2), expand=False))
        if command:
            console.print(Text(f"  {command}"), soft_wrap=True)  # no line break within
    console.print()


_TIMEOUT_HEADS = ("kind", "wanted", "timeout", "average wait")


def _timeouts(report: Report) -> Iterable[Sequence[str]]:
    for suggestion in report.suggestions:
        if suggestion.kind.total:
            point, cells = suggestion.point, (NOTHING, NOTHING)
            if point is not None:
                cells = duration(point.timeout_ms), duration(point.mean_wait_ms)
            yield ["all kinds", share(suggestion.wanted), *cells]


_WHEEL_HEADS = (
    *("wheel", "levels", "buckets", "cascades per op", "moves per op"),
    *("wake-ups per s", "late, average", "late, most"),
)


def _print(
    console: Console, title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        if place:
            # The heads are wider than the figures below them.
            table.add_column(head.replace(" ", "\n", 1), justify="right", no_wrap=True)
        else:
            table.add_column(head, overflow="fold", min_width=_NAME_WIDTH)
    for first, *rest in rows:
        table.add_row(Text(name(first, 32)), *rest)
    width = console.width
    console.width = max(width, _least_width(table, console))
    console.print(table)
    console.width = width
    console.print()


def _least_width(table: Table, console: Console) -> int:
    """Return the width that shows all figures: rich would leave out the names."""
    names = table.columns[0]
    names.max_width = _NAME_WIDTH
    least = console.measure(table, options=console.options.update(width=_ANY_WIDTH)).maximum
    names.max_width = None
    return least
