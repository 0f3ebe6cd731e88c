"""Writes the tables of a trace: checks every row, and makes the whole file appear at once.

A writer belongs to one thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import IO, Generic

from purgatory.trace.errors import BadRow, BadRows, BadValue, TraceError
from purgatory.trace.formats import format_of, reason
from purgatory.trace.path_conflicts import file_to_replace, keep_mode
from purgatory.trace.reader import Reader, StrPath
from purgatory.trace.row_files import RowWriter
from purgatory.trace.tables import (
    EVENTS,
    EXTENSIONS,
    OPERATIONS,
    OUTCOMES,
    Columns,
    Extension,
    KeyEvent,
    Operation,
    OutcomeRow,
    RowT,
    Table,
)


class Writer(Generic[RowT]):
    """Writes a file in a `with` block; the file appears, or is replaced, at the end of the block.

    Until then the rows are in a hidden file beside it, removed after an exception. Links and modes
    stay. After a failed write, later writes and the end of the block raise `TraceError`. `count`:
    of the rows written. A rare column is in the file only if a row needs it; the writer then copies
    the rows before.
    """

    def __init__(self, path: StrPath, table: Table[RowT]) -> None:
        self.path: str = os.fspath(path)
        self.table = table
        self.count: int = 0
        self._format = format_of(Path(path))
        self._target = Path(os.path.realpath(path))  # a link stays a link
        # With the suffixes, so that `_add_rare_columns` can read the file.
        suffixes = "".join(Path(path).suffixes[-2:])
        self._hidden = self._target.with_name(f".purgatory-{secrets.token_hex(8)}.tmp{suffixes}")
        self._file: IO[bytes] | None = None
        self._row_writer: RowWriter | None = None
        self._width = 0  # the number of columns in the file
        self._broken = False  # a write failed: the hidden file may end in a torn row

    def __enter__(self) -> Writer[RowT]:
        try:
            file_to_replace(self._target, self.path)
            self._open(self.table.without_rare_columns())
        except OSError as error:
            self._discard()
            raise self._failure(error) from error
        except BaseException:
            self._discard()
            raise
        return self

    def write(self, row: RowT) -> None:
        """Write a row; `BadRows`, and nothing is written, if a value is not allowed."""
        self._check_usable()
        try:
            self._write(self.table.make(*row))
        except BadValue as error:
            bad = BadRow.at(self.path, "row", self.count + 1, error)
            raise BadRows((bad,), more=False) from None
        except OSError as error:
            raise self._failure(error) from error
        self.count += 1

    def write_columns(self, columns: Columns, *, checked: bool = False) -> None:
        """Write many rows, given by column, as `write` does.

        After `BadRows` the rows before the bad row are written. `checked`: do not check again.
        """
        self._check_usable()
        if not self._try_write_columns(columns, checked):
            for row in zip(*columns, strict=True):
                self.write(row)  # type: ignore[arg-type]

    def _try_write_columns(self, columns: Columns, checked: bool) -> bool:
        """Write all at once; False, and nothing is written, if a row may be bad."""
        if self._row_writer is None or not columns[0]:
            return False
        good = columns if checked else self.table.make_columns(*columns)
        if good is None or any(map(any, good[self._width :])):
            return False
        try:
            written = self._row_writer.write_columns(good[: self._width])
        except BaseException as error:
            self._broken = True
            if isinstance(error, OSError):
                raise self._failure(error) from error
            raise
        self.count += len(columns[0]) if written else 0
        return written

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._check_unbroken()
                self._publish()
        except OSError as failure:
            raise self._failure(failure) from failure
        finally:
            self._discard()

    def _open(self, table: Table[RowT]) -> None:
        self._file = self._hidden.open("xb")
        keep_mode(self._target, self._hidden)
        self._row_writer = self._format.writer(self._file, Path(self.path), table)
        self._width = len(table.columns)

    def _write(self, row: RowT) -> None:
        assert self._row_writer is not None
        try:
            if any(row[self._width :]):
                self._add_rare_columns()
            self._row_writer.write(row[: self._width])
        except BadValue:  # nothing is written
            raise
        except BaseException:
            self._broken = True
            raise

    def _check_usable(self) -> None:
        self._check_unbroken()
        if self._row_writer is None:
            raise TraceError(f"{self.path}: written to outside of its with block")

    def _check_unbroken(self) -> None:
        if self._broken:
            raise TraceError(f"{self.path}: not written, because an earlier write failed")

    def _add_rare_columns(self) -> None:
        assert self._row_writer is not None
        assert self._file is not None
        self._row_writer.close()
        self._file.close()
        with Reader(self._hidden, self.table) as rows:
            self._hidden.unlink()  # open, so still readable
            self._open(self.table)
            for row in rows:
                self._row_writer.write(row)

    def _publish(self) -> None:
        if self._row_writer is None or self._file is None:
            return
        self._row_writer.close()
        self._row_writer = None
        self._file.flush()
        os.fsync(self._file.fileno())  # a power cut could leave an empty file otherwise
        self._file.close()
        self._hidden.replace(self._target)

    def _discard(self) -> None:
        row_writer, self._row_writer = self._row_writer, None
        file, self._file = self._file, None
        if row_writer is not None:
            # May fail like the write before.
            with contextlib.suppress(OSError, ValueError):
                row_writer.close()
        with contextlib.suppress(OSError):
            if file is not None:
                file.close()
        # Also if an interrupt came before the assignment.
        with contextlib.suppress(OSError):
            self._hidden.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> TraceError:
        return TraceError(f"{self.path}: cannot write: {reason(error)}")


def write_operations(path: StrPath) -> Writer[Operation]:
    """Write a table of operations; see `write_events`."""
    return Writer(path, OPERATIONS)


def write_events(path: StrPath) -> Writer[KeyEvent]:
    """Write a table of key events, in the format of the suffix, as `read_events`.

    `with write_events(path) as out: out.write(row)`. Rows are checked as on reading (`BadRows`);
    CSV refuses a key of an operation that contains '|'. A file that cannot be written raises
    `TraceError`.
    """
    return Writer(path, EVENTS)


def write_extensions(path: StrPath) -> Writer[Extension]:
    """Write a table of extensions; see `write_events`."""
    return Writer(path, EXTENSIONS)


def write_outcomes(path: StrPath) -> Writer[OutcomeRow]:
    """Write a table of outcomes; see `write_events`."""
    return Writer(path, OUTCOMES)
