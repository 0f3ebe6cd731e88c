"""Traces as CSV: a header line, then a row a record; lists are separated by '|'.

RFC 4180 with line feeds; an empty cell is null. Integers are plain decimal digits, truth is `true`
or `false` in any case. Used by `purgatory.trace.formats` alone; a reader or writer belongs to one
thread.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from purgatory.trace.errors import BadValue, TraceError
from purgatory.trace.rules import ColumnType
from purgatory.trace.text_file import (
    TextRowReader,
    TextRowWriter,
    check_header,
    open_text,
    wrap_text,
)

if TYPE_CHECKING:
    from purgatory.trace.rows import Column
    from purgatory.trace.tables import Table

SEPARATOR: Final = "|"


class CsvRowReader(TextRowReader):
    """Reads the records of one CSV file; `number` is the line on which the last one begins."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._cells: list[tuple[Callable[[str], object], int]] = []
        self._file = open_text(path, newline="")
        try:
            self._records = csv.reader(self._file)
            self._columns = self._read_header()
        except BaseException:
            self.close()
            raise

    def columns(self) -> Sequence[str]:
        """Return the names in the header line."""
        return self._columns

    def bind(self, table: Table[Any]) -> None:
        """Choose the table to read; `TraceError` when the header is not the table's."""
        table.check_columns(str(self._path), self._columns)
        # An absent column has index -1: the empty cell that `values` appends.
        places = {name: index for index, name in enumerate(self._columns)}
        self._cells = [
            (_FROM_TEXT[column.type], places.get(column.name, -1)) for column in table.columns
        ]

    def records(self) -> Iterator[Any]:
        """Yield the records as lists of fields, to be given to `values`."""
        reader = self._records
        begins = reader.line_num + 1
        for fields in reader:
            self.number = begins
            begins = reader.line_num + 1  # a quoted field may hold line breaks
            if fields:
                yield fields

    def values(self, fields: list[str]) -> list[object]:
        """Return the values of the table's columns; `BadValue` when the record has gaps."""
        if len(fields) != len(self._columns):
            count = len(self._columns)
            raise BadValue("", fields, f"{count} fields and not {len(fields)}")
        fields.append("")
        return [convert(fields[place]) for convert, place in self._cells]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_header(self) -> list[str]:
        header = next(self._records, None)
        if header is None:
            raise TraceError(f"{self._path}: empty, not even a header line")
        check_header(self._path, "".join(header))
        return [name.strip() for name in header]


class CsvRowWriter(TextRowWriter):
    """Writes rows into a file already open; `close` ends the text and leaves the file open."""

    def __init__(self, file: IO[bytes], path: Path, table: Table[Any]) -> None:
        self._text = wrap_text(file, path)
        self._minimal = csv.writer(self._text, lineterminator="\n")
        # Some versions of `csv` leave a bare carriage return unquoted; readers end a line there.
        self._quoting = csv.writer(self._text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        self._to_text = [_TO_TEXT[column.type] for column in table.columns]
        self._columns = table.columns
        self._limit = csv.field_size_limit()
        self._minimal.writerow(table.names)

    def write(self, row: tuple[Any, ...]) -> None:
        """Write a row; `BadValue` when CSV cannot hold it, and then nothing is written."""
        columns = self._columns
        cells = [
            to_text(column, value)
            for to_text, column, value in zip(self._to_text, columns, row, strict=True)
        ]
        joined = "".join(cells)
        if len(joined) > self._limit:
            self._check_lengths(cells)
        writer = self._quoting if "\r" in joined else self._minimal
        writer.writerow(cells)

    def close(self) -> None:
        """Write what is buffered and end the text."""
        self._text.close()

    def _check_lengths(self, cells: list[str]) -> None:
        for column, cell in zip(self._columns, cells, strict=True):
            if len(cell) > self._limit:
                raise BadValue(
                    column.name, cell, f"at most {self._limit} characters, what a CSV reader takes"
                )


def _integer_from(cell: str) -> object:
    """Return the integer, None for an empty cell, or else the cell, which validation refuses."""
    if not cell:
        return None
    try:
        # int() accepts underscores and the digits of other scripts; other CSV readers do not.
        return int(cell) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell


def _truth_from(cell: str) -> object:
    """Return True or False, None for an empty cell, or else the cell, which validation refuses."""
    return _TRUTHS.get(cell.lower(), cell) if cell else None


def _text_from(cell: str) -> object:
    return cell or None


def _texts_from(cell: str) -> object:
    return cell.split(SEPARATOR) if cell else None


def _plain(_column: Column, value: object) -> str:
    return "" if value is None else str(value)


def _truth(_column: Column, value: bool) -> str:
    return "true" if value else "false"


def _joined(column: Column, texts: Sequence[str]) -> str:
    for text in texts:
        if SEPARATOR in text:
            raise BadValue(column.name, text, "no '|' in a key, as it separates keys in CSV")
    return SEPARATOR.join(texts)


_TRUTHS: Final = {"true": True, "false": False}
_FROM_TEXT: Final[dict[ColumnType, Callable[[str], object]]] = {
    ColumnType.TEXT: _text_from,
    ColumnType.TEXTS: _texts_from,
    ColumnType.INT32: _integer_from,
    ColumnType.INT64: _integer_from,
    ColumnType.BOOL: _truth_from,
}
_TO_TEXT: Final[dict[ColumnType, Callable[[Column, Any], str]]] = {
    ColumnType.TEXT: _plain,
    ColumnType.TEXTS: _joined,
    ColumnType.INT32: _plain,
    ColumnType.INT64: _plain,
    ColumnType.BOOL: _truth,
}
