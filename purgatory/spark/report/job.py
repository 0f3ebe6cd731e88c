"""Reads a journal, prints its report, writes page and data.

Call from the thread that owns the console.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from purgatory.console import OutputConsole
from purgatory.spark.errors import SparkError, wrapping_spark_errors
from purgatory.spark.report.content import Report
from purgatory.spark.report.jobs import job_tables
from purgatory.spark.report.page.page_maker import make_page
from purgatory.spark.report.report import DEFAULT_SHARES, ReportOptions, make_report
from purgatory.spark.report.tables import figures
from purgatory.spark.report.terminal import print_report
from purgatory.spark.report.wheel_tuning import DEFAULT_TICKS_MS, DEFAULT_WHEEL_SIZES, wheel_sizes
from purgatory.spark.session import SHORT_WORK
from purgatory.spark.tables.journal_tables import (
    JournalTables,
    Rejections,
    count_rejected,
    read_journal,
)
from purgatory.trace.errors import TraceError
from purgatory.trace.path_conflicts import file_to_replace, keep_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console


def make_report_options(
    shares: Sequence[float] | None, ticks_ms: Sequence[float] | None, sizes: Sequence[int] | None
) -> ReportOptions:
    """Make options from a command line; `SparkError` for a bad one."""
    try:
        wheels = wheel_sizes(ticks_ms or DEFAULT_TICKS_MS, sizes or DEFAULT_WHEEL_SIZES)
        return ReportOptions(shares=shares or DEFAULT_SHARES, wheels=wheels)
    except ValueError as error:
        raise SparkError(str(error)) from error


class OutputFile:
    """A file, replaced atomically; `SparkError` if not writable.

    Make it before the work, so that an unwritable file is reported at once. Links and modes stay.
    """

    def __init__(self, path: str | Path) -> None:
        self._name = str(path)
        if self._name and Path(path).is_dir():
            raise SparkError(f"{path}: is a directory; expected the name of a file")
        self._target = _file_to_replace(self._name)
        self._draft = self._target.with_name(f".{self._target.name}.{os.getpid()}.tmp")
        self._write("")
        self._draft.unlink()

    def __str__(self) -> str:
        return self._name

    def write(self, text: str) -> None:
        """Replace the file's text."""
        try:
            _file_to_replace(self._name)  # the work may have taken hours
            self._write(text)
            self._draft.replace(self._target)
        finally:
            self._draft.unlink(missing_ok=True)

    def _write(self, text: str) -> None:
        try:
            self._draft.touch()
            keep_mode(self._target, self._draft)
            self._draft.write_text(text, encoding="utf-8")
        except OSError as error:
            raise SparkError(f"{self._name}: cannot be written: {error.strerror}") from error


def _file_to_replace(name: str) -> Path:
    try:
        return file_to_replace(name, name or "the page")
    except TraceError as error:
        raise SparkError(str(error)) from error


class DataDirectory:
    """A directory of CSV files, made if needed; `SparkError` if not writable."""

    def __init__(self, path: str) -> None:
        if not path:
            raise SparkError("the directory of the data is empty; expected the name of a directory")
        self._path = Path(path)
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SparkError(f"{path}: cannot be made: {error.strerror}") from error
        for file in (self._path / "kinds.csv", *self._path.glob("*.csv")):
            OutputFile(file)

    def __str__(self) -> str:
        return str(self._path)

    def write(self, report: Report) -> None:
        """Write a file for each figure."""
        of_jobs = {} if report.jobs is None else job_tables.figures(report.jobs)
        for name, figure in {**figures(report), **of_jobs}.items():
            text = figure.csv().encode("utf-8", "replace").decode()
            OutputFile(self._path / f"{name}.csv").write(text)


def settings_for(*paths: str | None) -> Mapping[str, str]:
    """Return settings of a local session: `SHORT_WORK` if all journals are small local files."""
    try:
        size = sum(_size(Path(path)) for path in paths if path is not None)
    except OSError:  # not a local file
        return {}
    return SHORT_WORK if size <= _SMALL_BYTES else {}


# About a million outcomes, as Parquet.
_SMALL_BYTES: Final = 32 * 2**20


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)


def report_journal(
    spark: SparkSession,
    path: str,
    options: ReportOptions,
    page: OutputFile | None = None,
    *,
    against: str | None = None,
    data: DataDirectory | None = None,
    strict: bool = False,
    console: Console | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Report:
    """Read a journal, print its report, and write the page and the data of its figures.

    `against`: the journal of an earlier period, to compare with. Raises `TableError` for an
    unreadable table, `RejectedRows` if `strict` and a row breaks a rule, else `SparkError`.
    """
    console = console or OutputConsole()
    earlier = None
    notes: list[str] = []
    if against is not None:
        few = replace(options, wheels=(), max_keys=1)
        earlier, notes = _report(spark, against, few, None, strict, progress)
        notes = [f"Earlier period: {note}" for note in notes]
    report, own_notes = _report(spark, path, options, earlier, strict, progress)
    notes = own_notes + notes
    if page is not None:
        progress("drawing")
        page.write(make_page(report, path, notes))
    if data is not None:
        data.write(report)
    print_report(report, console)
    for note in [*notes, *(f"-> {out}" for out in (page, data) if out is not None)]:
        console.print(note, markup=False, highlight=False)
    return report


def _report(
    spark: SparkSession,
    path: str,
    options: ReportOptions,
    earlier: Report | None,
    strict: bool,
    progress: Callable[[str], object],
) -> tuple[Report, list[str]]:
    with wrapping_spark_errors(path):
        progress(f"looking at {path}")
        journal = read_journal(spark, path)
        progress("checking rows")
        rejections = count_rejected(journal.rejected, strict=strict)
        report = make_report(
            journal.outcomes,
            journal.operations,
            options,
            progress,
            against=earlier,
            jobs=journal.jobs,
            is_server=journal.is_server,
        )
    return report, _notes(journal, rejections)


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
