"""Traces as text, gzip-compressed or not: CSV, and JSON lines.

CSV: a header line, then records; RFC 4180 with line feeds. An empty cell is null, lists are
separated by '|', integers are plain decimal digits, booleans `true` or `false` in any case. JSON
lines: one object a line; blank lines are skipped. Both are UTF-8.

A reader or writer belongs to one thread.
"""

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from purgatory.trace.errors import BadValue, TraceError
from purgatory.trace.row_files import RowReader, RowWriter
from purgatory.trace.tables import Column, Table
from purgatory.trace.validation import ColumnType

SEPARATOR: Final = "|"
_OTHER_SEPARATORS: Final = (";", "\t", "|")  # of columns, in files of other programs
# Raised by reading a text file, or by csv.reader on one. Not UnicodeDecodeError: see `_open_text`.
READ_ERRORS: Final = (OSError, EOFError, zlib.error, csv.Error)


class _TextReader(RowReader):
    errors = READ_ERRORS

    def __init__(self, path: Path, newline: str, lines: Iterable[str] | None = None) -> None:
        self._path = path
        self._file = _open_text(path, newline) if lines is None else None
        self._lines: Iterable[str] = self._file or lines or ()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _TextWriter(RowWriter):
    """Writes rows into an open file; `close` leaves the file open."""

    def __init__(self, file: IO[bytes], path: Path, table: Table[Any]) -> None:
        self._text = _wrap_text(file, path)
        self._table = table

    def close(self) -> None:
        self._text.close()


class CsvRowReader(_TextReader):
    """Reads the records of one CSV file; `number` is the first line of the last record.

    `lines`: the file's lines, each with its end; None: opens the file.
    """

    def __init__(self, path: Path, lines: Iterable[str] | None = None) -> None:
        super().__init__(path, "", lines)
        self._cells: list[tuple[Callable[[str], object], int]] = []
        try:
            self._records = csv.reader(self._lines, strict=True)
            self._columns = self._read_header()
        except BaseException:
            self.close()
            raise

    def columns(self) -> Sequence[str]:
        return self._columns

    def bind(self, table: Table[Any]) -> None:
        """Choose the table; `TraceError` if a required column is missing."""
        table.check_columns(str(self._path), self._columns)
        # An absent column has index -1: the empty cell that `values` appends.
        places = {name: index for index, name in enumerate(self._columns)}
        self._cells = [
            (_FROM_TEXT[column.type], places.get(column.name, -1)) for column in table.columns
        ]

    def records(self) -> Iterator[Any]:
        reader = self._records
        begins = reader.line_num + 1
        for fields in reader:
            self.number = begins
            begins = reader.line_num + 1  # a quoted field may hold line breaks
            if fields:
                yield fields

    def values(self, fields: list[str]) -> list[object]:
        if len(fields) != len(self._columns):
            count = len(self._columns)
            raise BadValue("", fields, f"{count} fields and not {len(fields)}")
        fields.append("")
        return [convert(fields[place]) for convert, place in self._cells]

    def _read_header(self) -> list[str]:
        header = next(self._records, None)
        if header is None:
            raise TraceError(f"{self._path}: empty, not even a header line")
        line = ",".join(header)
        if "\0" in line or any("\ud800" <= char <= "\udfff" for char in line):
            raise TraceError(f"{self._path}: not UTF-8 text")
        if not line.strip(", \t"):
            raise TraceError(f"{self._path}: the first line is blank, expected names of columns")
        for separator in _OTHER_SEPARATORS:
            if len(header) == 1 and separator in line:
                raise TraceError(
                    f"{self._path}: its columns are separated by {separator!r}, expected ','"
                )
        return [name.strip() for name in header]


class CsvRowWriter(_TextWriter):
    """Writes the header line, then rows."""

    def __init__(self, file: IO[bytes], path: Path, table: Table[Any]) -> None:
        super().__init__(file, path, table)
        self._minimal = csv.writer(self._text, lineterminator="\n")
        # Some versions of `csv` leave a bare carriage return unquoted; readers end a line there.
        self._quoting = csv.writer(self._text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        self._to_text = [_TO_TEXT[column.type] for column in table.columns]
        self._limit = csv.field_size_limit()
        self._minimal.writerow(table.names)

    def write(self, row: tuple[Any, ...]) -> None:
        cells = [
            to_text(column, value)
            for to_text, column, value in zip(self._to_text, self._table.columns, row, strict=True)
        ]
        joined = "".join(cells)
        if len(joined) > self._limit:
            self._check_lengths(cells)
        writer = self._quoting if "\r" in joined else self._minimal
        writer.writerow(cells)

    def _check_lengths(self, cells: list[str]) -> None:
        for column, cell in zip(self._table.columns, cells, strict=True):
            if len(cell) > self._limit:
                raise BadValue(
                    column.name, cell, f"at most {self._limit} characters, what a CSV reader takes"
                )


class JsonRowReader(_TextReader):
    """Reads the lines of one file; `number` is the last line's."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, newline="\n")
        self._names: tuple[str, ...] = ()

    def columns(self) -> Sequence[str]:
        """Return the first line's names."""
        with _open_text(self._path, newline="\n") as file:
            first = next((line for line in file if not line.isspace()), "")
        try:
            return tuple(object_of(first))
        except BadValue:
            return ()

    def bind(self, table: Table[Any]) -> None:
        """Choose the table; a line that lacks a column is a bad row, not a bad file."""
        self._names = table.names

    def records(self) -> Iterator[Any]:
        for self.number, line in enumerate(self._lines, 1):  # noqa: B020 - it does not
            if self.number == 1 and is_binary(line):
                raise TraceError(f"{self._path}: not UTF-8 text")
            if not line.isspace():
                yield line

    def values(self, line: str) -> Iterator[object]:
        return map(object_of(line).get, self._names)


class JsonRowWriter(_TextWriter):
    """Writes an object a line."""

    _encode = staticmethod(json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode)

    def write(self, row: tuple[Any, ...]) -> None:
        self._text.write(self._encode(dict(zip(self._table.names, row, strict=True))) + "\n")


def _open_text(path: Path, newline: str) -> io.TextIOWrapper:
    """Open a file for reading, decompressing `.gz`; drop a byte order mark.

    Bad bytes become lone surrogates, which validation refuses.
    """
    opened = gzip.GzipFile if is_gzip(path) else open
    raw = opened(path, "rb")
    return io.TextIOWrapper(raw, "utf-8-sig", "surrogateescape", newline)


def _wrap_text(file: IO[bytes], path: Path) -> io.TextIOWrapper:
    """Return a text stream into an open file, compressed if `path` ends in `.gz`.

    Closing it leaves `file` open. The same rows give the same bytes.
    """
    if is_gzip(path):
        compressed = gzip.GzipFile("", "wb", 6, file, mtime=0)
        return io.TextIOWrapper(compressed, "utf-8", newline="")
    return os.fdopen(file.fileno(), "w", encoding="utf-8", newline="", closefd=False)


def is_gzip(path: Path) -> bool:
    """Tell, by the suffix, whether a file is compressed."""
    return path.suffix.lower() == ".gz"


def is_binary(first_line: str) -> bool:
    """Tell whether a first line cannot begin JSON in UTF-8."""
    return "\0" in first_line[:4]


def object_of(line: str) -> dict[str, object]:
    """Return the JSON object of a line; `BadValue` for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadValue("", line.strip(), "one JSON object on the line")
    return found


def _integer_from(cell: str) -> object:
    if not cell:
        return None
    try:
        # int() also accepts underscores and non-ASCII digits, unlike most CSV readers.
        return int(cell) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell


def _plain(_column: Column, value: object) -> str:
    return "" if value is None else str(value)


def _joined(column: Column, texts: Sequence[str]) -> str:
    for text in texts:
        if SEPARATOR in text:
            raise BadValue(column.name, text, "no '|' in a key, as it separates keys in CSV")
    return SEPARATOR.join(texts)


_TRUTHS: Final = {"true": True, "false": False}
_FROM_TEXT: Final[dict[ColumnType, Callable[[str], object]]] = {
    ColumnType.TEXT: lambda cell: cell or None,
    ColumnType.TEXTS: lambda cell: cell.split(SEPARATOR) if cell else None,
    ColumnType.INT32: _integer_from,
    ColumnType.INT64: _integer_from,
    ColumnType.BOOL: lambda cell: _TRUTHS.get(cell.lower(), cell) if cell else None,
}
_TO_TEXT: Final[dict[ColumnType, Callable[[Column, Any], str]]] = {
    ColumnType.TEXT: _plain,
    ColumnType.TEXTS: _joined,
    ColumnType.INT32: _plain,
    ColumnType.INT64: _plain,
    ColumnType.BOOL: lambda _, value: "true" if value else "false",
}
