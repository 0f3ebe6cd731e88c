"""Reads the tables of a trace as streams: constant memory, every row checked.

A reader and iterators of a file belong to one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias

from purgatory.trace.errors import SHOWN, BadRow, BadRows, BadValue, OutOfOrder, TraceError
from purgatory.trace.formats import files_of, open_rows, reason
from purgatory.trace.row_files import NoRows, RowReader
from purgatory.trace.tables import (
    EVENTS,
    EXTENSIONS,
    OPERATIONS,
    OUTCOMES,
    Batch,
    Columns,
    Extension,
    KeyEvent,
    Operation,
    OutcomeRow,
    RowT,
    Table,
    columns_of,
    first_going_back,
    recognise,
    table_named,
)
from purgatory.trace.validation import INT64_MIN
from timingwheel.lowlevel import check_callback

StrPath: TypeAlias = str | os.PathLike[str]
OnBad: TypeAlias = Callable[[BadRow], object]

# Records to read after a bad row, for more bad rows.
_LOOK_AHEAD: Final = 10_000


class Reader(Generic[RowT]):
    """An iterator over the rows of a file, or of a directory's files sorted by name.

    Closes itself at the end and on an error; else use a `with` block or `close`.
    """

    def __init__(self, path: StrPath, table: Table[RowT], on_bad: OnBad | None = None) -> None:
        if on_bad is not None:
            check_callback("on_bad", on_bad)
        self.path: str = os.fspath(path)
        self.table = table
        self._closed = False
        self._on_bad = on_bad
        self._files = files_of(path)
        self._file = next(iter(self._files), Path(path))
        self._row_reader = _open_bound(self._file, table) if self._files else _no_rows(path, table)
        self._rows = self._read()

    def __iter__(self) -> Iterator[RowT]:
        self._check_open()
        # The generator itself: no Python call for each row.
        return self._rows

    def __next__(self) -> RowT:
        self._check_open()
        return next(self._rows)

    def where(self, number: int | None = None) -> str:
        """Return the place of the last row, or of a number."""
        row_reader = self._row_reader
        return f"{self._file}, {row_reader.unit} {row_reader.number if number is None else number}"

    def close(self) -> None:
        """Close the file; reading on raises `TraceError`."""
        self._closed = True
        self._rows.close()
        self._row_reader.close()

    def __enter__(self) -> Reader[RowT]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches(self) -> Generator[Batch, None, None]:
        """Yield the rows by column, in batches: instead of iterating, with the same checks.

        Parquet is checked by column, and row by row only if a row may be bad.
        """
        self._check_open()
        portions = self._portions()
        try:
            for portion in portions:
                yield from self._batches_of(portion, portions)
        finally:
            portions.close()

    def _check_open(self) -> None:
        if self._closed:
            raise TraceError(f"{self.path}: read after its reader was closed")

    def _batches_of(self, portion: Any, portions: Iterator[Any]) -> Iterator[Batch]:
        row_reader = self._row_reader
        before = row_reader.number
        good = row_reader.good_columns_of(portion)
        if good is None:
            columns = row_reader.columns_of(portion)
            good = self.table.make_columns(*columns) if columns and columns[0] else None
        if good:
            yield Batch(good, range(before + 1, row_reader.number + 1))
            return
        row_reader.number = before
        records = row_reader.records_of(portion)
        rest = (record for later in portions for record in self._row_reader.records_of(later))
        numbered = [(row_reader.number, row) for row in self._checked(records, rest)]
        if numbered:
            numbers, rows = zip(*numbered, strict=True)
            yield Batch(columns_of(rows), numbers)

    def _read(self) -> Generator[RowT, None, None]:
        records = self._records()
        try:
            yield from self._checked(records, ())
        finally:
            records.close()

    def _checked(self, records: Iterator[Any], rest: Iterable[Any]) -> Iterator[RowT]:
        make = self.table.make
        for record in records:
            try:
                row = make(*self._row_reader.values(record))
            except BadValue as error:
                bad = self._bad_row(error)
                if self._on_bad is None:
                    raise self._bad_rows_error(bad, chain(records, rest)) from None
                self._on_bad(bad)
                continue
            yield row

    def _records(self) -> Generator[Any, None, None]:
        """Yield the records of all files; `self._row_reader` read the last."""
        for row_reader in self._row_readers():
            yield from self._guarded(row_reader.records())

    def _portions(self) -> Generator[Any, None, None]:
        for row_reader in self._row_readers():
            yield from self._guarded(row_reader.portions())

    def _row_readers(self) -> Generator[RowReader, None, None]:
        for file in self._files:
            if file != self._file:
                self._row_reader = _open_bound(file, self.table)
                self._file = file
            try:
                yield self._row_reader
            finally:
                self._row_reader.close()

    def _guarded(self, items: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from items
        except self._row_reader.errors as error:
            after = f", after {self._row_reader.unit} {self._row_reader.number}"
            place = after if self._row_reader.number else ""
            raise TraceError(f"{self._file}{place}: {reason(error)}") from error

    def _bad_rows_error(self, first: BadRow, records: Iterator[Any]) -> BadRows:
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
    """Read a table of operations; see `read_events`."""
    return Reader(path, OPERATIONS, on_bad)


def read_events(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[KeyEvent]:
    """Read a table of key events; without a column `hold_ms` or `failed`, none is held or failed.

    The suffix names the format: `.parquet`, `.csv`, `.jsonl`, `.ndjson` or `.json` (JSON lines),
    the text formats also with `.gz`. `path` may be a directory of such files. Rows come in file
    order.

    A bad row raises `BadRows`, after the good rows before; with `on_bad` the function gets the row,
    and reading continues (see `SkippedRows`). A file that cannot be read, or lacks a column, raises
    `TraceError`.
    """
    return Reader(path, EVENTS, on_bad)


def read_extensions(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[Extension]:
    """Read a table of extensions; see `read_events`."""
    return Reader(path, EXTENSIONS, on_bad)


def read_outcomes(path: StrPath, *, on_bad: OnBad | None = None) -> Reader[OutcomeRow]:
    """Read a table of outcomes; see `read_events`."""
    return Reader(path, OUTCOMES, on_bad)


def table_of(path: StrPath) -> Table[Any]:
    """Return the table of a file, or of the first file of a directory, by its columns.

    Without columns, as in an empty directory, the name decides.
    """
    files = files_of(path)
    file = files[0] if files else Path(path)
    row_reader = open_rows(file) if files else NoRows()
    try:
        columns = row_reader.columns()
    finally:
        row_reader.close()
    return (None if columns else _table_by_name(file)) or recognise(str(file), columns)


def _table_by_name(path: StrPath) -> Table[Any] | None:
    return table_named(Path(os.path.abspath(path)).name)  # noqa: PTH100 - not the name of a link


def _no_rows(path: StrPath, table: Table[Any]) -> NoRows:
    found = _table_by_name(path)
    if found is None or found.name != table.name:
        raise TraceError(f"{path}: an empty directory; expected a table of {table.name}")
    return NoRows()


def _open_bound(file: Path, table: Table[Any]) -> RowReader:
    row_reader = open_rows(file)
    try:
        row_reader.bind(table)
    except BaseException:
        row_reader.close()
        raise
    return row_reader


def in_order(rows: Reader[RowT]) -> Iterator[RowT]:
    """Yield rows; raise `OutOfOrder` where time goes backwards.

    Closes `rows` at the end in any case.
    """
    time_of = rows.table.time_of
    before: int | None = None
    with rows:
        for row in rows:
            at = time_of(row)
            if before is not None and at < before:
                raise OutOfOrder(rows.where(), rows.table.time_column, before, at)
            before = at
            yield row


def batches_in_order(rows: Reader[RowT]) -> Iterator[Columns]:
    """Do as `in_order`, by column."""
    place = rows.table.time_place
    before = INT64_MIN
    with rows:
        for batch in rows.batches():
            times = batch.columns[place]
            if (early := first_going_back(times, before)) is not None:
                last = times[early - 1] if early else before
                where = rows.where(batch.numbers[early])
                raise OutOfOrder(where, rows.table.time_column, last, times[early])
            before = times[-1]
            yield batch.columns


def batches_by_time(rows: Reader[RowT]) -> Iterator[Columns]:
    """Do as `by_time`, by column."""
    columns: list[list[Any]] = [[] for _ in rows.table.columns]
    with rows:
        for batch in rows.batches():
            for column, more in zip(columns, batch.columns, strict=True):
                column.extend(more)
    times = columns[rows.table.time_place]
    order = sorted(range(len(times)), key=times.__getitem__)
    if order:
        yield tuple([column[n] for n in order] for column in columns)


def by_time(rows: Reader[RowT]) -> list[RowT]:
    """Read all rows into memory, sorted by time; rows of one instant keep their order."""
    return sorted(rows, key=rows.table.time_of)
