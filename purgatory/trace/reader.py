"""Reads the tables of a trace as streams: constant memory, every row checked.

Public through `purgatory.trace`. A reader belongs to one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias

from purgatory.trace.bad_rows import SHOWN, BadRow, BadRows
from purgatory.trace.errors import BadValue, TraceError
from purgatory.trace.formats import RowReader, files_of, open_rows, reason
from purgatory.trace.tables import (
    EVENTS,
    EXTENSIONS,
    OPERATIONS,
    OUTCOMES,
    RowT,
    Table,
    recognise,
)

if TYPE_CHECKING:
    from purgatory.trace.rows import Extension, KeyEvent, Operation, OutcomeRow

StrPath: TypeAlias = str | os.PathLike[str]
OnBad: TypeAlias = Callable[[BadRow], object]

# Records read after a bad row to describe more of them.
_LOOK_AHEAD: Final = 10_000


class Reader(Generic[RowT]):
    """An iterator over the rows of one file, or of the files of a directory sorted by name.

    Closes itself at the end and on an error; use it in a `with` block, or `close` it, when it may
    be left earlier.
    """

    def __init__(self, path: StrPath, table: Table[RowT], on_bad: OnBad | None = None) -> None:
        self.path: str = os.fspath(path)
        self.table = table
        self._on_bad = on_bad
        self._files = files_of(Path(path))
        self._file = self._files[0]
        self._row_reader = _open_bound(self._file, table)
        self._rows = self._read()

    def __iter__(self) -> Iterator[RowT]:
        # The generator itself, so that a `for` loop makes no Python call for each row.
        return self._rows

    def __next__(self) -> RowT:
        return next(self._rows)

    def where(self) -> str:
        """Return the file and the line or row number of the row that was returned last."""
        return f"{self._file}, {self._row_reader.unit} {self._row_reader.number}"

    def close(self) -> None:
        """Close the file; nothing more is read."""
        self._rows.close()
        self._row_reader.close()

    def __enter__(self) -> Reader[RowT]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> Generator[RowT, None, None]:
        make = self.table.make
        records = self._records()
        try:
            for record in records:
                try:
                    row = make(*self._row_reader.values(record))
                except BadValue as error:
                    bad = self._bad_row(error)
                    if self._on_bad is None:
                        raise self._bad_rows_error(bad, records) from None
                    self._on_bad(bad)
                    continue
                yield row
        finally:
            records.close()

    def _records(self) -> Generator[Any, None, None]:
        """Yield the records of all files; `self._row_reader` is the one the last came from."""
        for file in self._files:
            if file != self._file:
                self._row_reader = _open_bound(file, self.table)
                self._file = file
            try:
                yield from self._row_reader.records()
            except self._row_reader.errors as error:
                after = f", after {self._row_reader.unit} {self._row_reader.number}"
                place = after if self._row_reader.number else ""
                raise TraceError(f"{file}{place}: {reason(error)}") from error
            finally:
                self._row_reader.close()

    def _bad_rows_error(self, first: BadRow, records: Iterator[Any]) -> BadRows:
        """Report the next bad rows, too, so that several can be mended at once.

        Looks ahead for at most `_LOOK_AHEAD` records.
        """
        bad = [first]
        try:
            for record in islice(records, _LOOK_AHEAD):
                try:
                    self.table.make(*self._row_reader.values(record))
                except BadValue as error:
                    bad.append(self._bad_row(error))
                if len(bad) == SHOWN:
                    break
            more = next(records, None) is not None
        except TraceError:  # the rest is unreadable
            more = True
        return BadRows(tuple(bad), more)

    def _bad_row(self, error: BadValue) -> BadRow:
        row_reader = self._row_reader
        return BadRow.at(str(self._file), row_reader.unit, row_reader.number, error)


def read_operations(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[Operation]:
    """Read a table of operations; see `read_events` for what all readers share."""
    return Reader(path, OPERATIONS, on_bad)


def read_events(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[KeyEvent]:
    """Read a table of key events; without a column `hold_ms` or `failed`, none is held or failed.

    The suffix names the format: `.parquet`, `.csv`, `.jsonl`, `.ndjson` or `.json` (JSON lines),
    the text formats also with `.gz`. `path` may be a directory of such files. Rows come in the
    order of the file and are read one by one.

    A bad row raises `BadRows`, after the good rows before it were returned; with `on_bad` it is
    given to that function instead and skipped (`SkippedRows` counts them). A file that cannot be
    read, or lacks a column, raises `TraceError`: at once when it can be seen at the beginning of
    the file, else when reading comes to the place.
    """
    return Reader(path, EVENTS, on_bad)


def read_extensions(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[Extension]:
    """Read a table of extensions; see `read_events` for what all readers share."""
    return Reader(path, EXTENSIONS, on_bad)


def read_outcomes(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[OutcomeRow]:
    """Read a table of outcomes; see `read_events` for what all readers share."""
    return Reader(path, OUTCOMES, on_bad)


def table_of(path: StrPath) -> Table[Any]:
    """Return the table that a file, or the first file of a directory, holds, by its columns."""
    file = files_of(Path(path))[0]
    row_reader = open_rows(file)
    try:
        return recognise(str(file), row_reader.columns())
    finally:
        row_reader.close()


def _open_bound(file: Path, table: Table[Any]) -> RowReader:
    """Open a file and check that it has the table's columns."""
    row_reader = open_rows(file)
    try:
        row_reader.bind(table)
    except BaseException:
        row_reader.close()
        raise
    return row_reader
