"""Text files, gzip-compressed or not: what CSV and JSON lines have in common.

Used by `purgatory.trace.csv_format` and `purgatory.trace.json_format`. A file belongs to the thread
that opened it.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from purgatory.trace.errors import TraceError
from purgatory.trace.rows import BATCH_ROWS, Columns

# Raised by iterating a text file, and by csv.reader on one. UnicodeDecodeError cannot occur: see
# `open_text`.
READ_ERRORS: Final = (OSError, EOFError, zlib.error, csv.Error)


class TextRowReader:
    """Base of the readers of text: reads single records; `number` is the line of the last one."""

    unit = "line"
    errors: tuple[type[Exception], ...] = READ_ERRORS

    def __init__(self) -> None:
        self.number: int = 0

    def records(self) -> Iterator[Any]:
        """See `RowReader`."""
        raise NotImplementedError

    def portions(self) -> Iterator[list[tuple[int, Any]]]:
        """Yield the records with their lines, many at a time."""
        numbered = ((self.number, record) for record in self.records())
        while portion := list(islice(numbered, BATCH_ROWS)):
            yield portion

    def good_columns_of(self, portion: list[tuple[int, Any]]) -> Columns | None:
        """Return None: text is checked row by row."""
        del portion
        return None

    def columns_of(self, portion: list[tuple[int, Any]]) -> Columns | None:
        """Return None: text is checked row by row."""
        del portion
        return None

    def records_of(self, portion: list[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the records of a portion, and set `number`."""
        for self.number, record in portion:
            yield record


class TextRowWriter:
    """Base of the writers of text."""

    def write_columns(self, columns: Columns) -> bool:
        """Return False: text is written row by row."""
        del columns
        return False


def open_text(path: Path, newline: str) -> io.TextIOWrapper:
    """Open a file for reading, decompressing `.gz`.

    Bytes that are not UTF-8 become lone surrogates, which validation refuses. So a bad byte makes
    one bad row, and does not end the reading. A byte order mark is dropped.
    """
    opened = gzip.GzipFile if is_gzip(path) else open
    raw = opened(path, "rb")
    return io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline)


def wrap_text(file: IO[bytes], path: Path) -> io.TextIOWrapper:
    """Return a text stream that writes into an open file, compressed if `path` ends in `.gz`.

    Closing the result ends the compressed stream and leaves `file` open. The same rows always give
    the same bytes: the gzip header holds neither name nor time.
    """
    raw = gzip.GzipFile("", "wb", 6, file, mtime=0) if is_gzip(path) else _UnclosedFile(file)
    return io.TextIOWrapper(raw, "utf-8", newline="")  # type: ignore[arg-type]


def is_gzip(path: Path) -> bool:
    """Tell, by its suffix, whether a file is compressed."""
    return path.suffix.lower() == ".gz"


def check_header(path: Path, header: str) -> None:
    """Raise TraceError for a first line in another encoding, or of a binary file."""
    if "\0" in header or any("\ud800" <= char <= "\udfff" for char in header):
        raise TraceError(f"{path}: not UTF-8 text")


class _UnclosedFile(io.BufferedIOBase):
    """Forwards writes to a file and does not close it, as GzipFile does."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)
