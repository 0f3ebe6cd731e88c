"""The report job: reads a journal, prints its report, writes the page.

Call from the thread that owns the console.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from purgatory.spark.errors import SparkError, wrapping_spark_errors
from purgatory.spark.report.page import make_page
from purgatory.spark.report.report import DEFAULT_SHARES, Report, ReportOptions, make_report
from purgatory.spark.report.terminal import print_report
from purgatory.spark.report.wheel_tuning import DEFAULT_TICKS_MS, DEFAULT_WHEEL_SIZES, wheel_sizes
from purgatory.spark.tables.journal_tables import (
    JournalTables,
    Rejections,
    count_rejected,
    read_journal,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_report_options(
    shares: Sequence[float] | None, ticks_ms: Sequence[int] | None, sizes: Sequence[int] | None
) -> ReportOptions:
    """Make options from a command line; `SparkError` for a bad one."""
    try:
        wheels = wheel_sizes(ticks_ms or DEFAULT_TICKS_MS, sizes or DEFAULT_WHEEL_SIZES)
        return ReportOptions(shares=shares or DEFAULT_SHARES, wheels=wheels)
    except ValueError as error:
        raise SparkError(str(error)) from error


class PageFile:
    """The file of a page, replaced atomically.

    Raises `SparkError` if it cannot be written. Made before the work starts, so that a file that
    cannot be written is reported at once.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._draft = self._path.with_name(f".{self._path.name}.{os.getpid()}.tmp")
        if self._path.is_dir():
            raise SparkError(f"{path}: is a directory; expected the name of a file")
        self._write("")
        self._draft.unlink()

    def __str__(self) -> str:
        return str(self._path)

    def write(self, text: str) -> None:
        """Replace the file by one with this text."""
        try:
            self._write(text)
            self._draft.replace(self._path)
        finally:
            self._draft.unlink(missing_ok=True)

    def _write(self, text: str) -> None:
        try:
            self._draft.write_text(text, encoding="utf-8")
        except OSError as error:
            raise SparkError(f"{self._path}: cannot be written: {error.strerror}") from error


def report_journal(
    spark: SparkSession,
    path: str,
    options: ReportOptions,
    page: PageFile | None = None,
    *,
    strict: bool = False,
    console: Console | None = None,
) -> Report:
    """Read a journal, print its report, and write the page.

    Raises `TableError` for a table that cannot be read, `RejectedRows` if `strict` and a row breaks
    a rule, `SparkError` for any other failure.
    """
    console = console or Console()
    with Console(stderr=True).status("reading") as status, wrapping_spark_errors(path):
        journal = read_journal(spark, path)
        status.update("checking rows")
        rejections = count_rejected(journal.rejected, strict=strict)
        report = make_report(journal.outcomes, journal.operations, options, status.update)
        notes = _notes(journal, rejections)
        if page is not None:
            status.update("drawing")
            page.write(make_page(report, path, notes))
    print_report(report, console)
    for note in notes:
        console.print(note, markup=False, highlight=False)
    if page is not None:
        console.print(f"-> {page}", markup=False, highlight=False)
    return report


def _notes(journal: JournalTables, rejections: Rejections) -> list[str]:
    notes = []
    if rejections.rows:
        reasons = "; ".join(rejections.reasons)
        notes.append(f"Rows left out because they break a rule: {rejections.rows:,}. {reasons}")
    if journal.operations is None:
        notes.append(
            "There is no table of operations: how many have no outcome, and how many operations "
            "watch a key, is not known."
        )
    return notes
