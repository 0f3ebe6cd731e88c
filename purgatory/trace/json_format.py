"""Traces as JSON lines: one object a line, in UTF-8; blank lines are skipped.

Used by `purgatory.trace.formats` alone; a reader or writer belongs to one thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from purgatory.trace.errors import BadValue
from purgatory.trace.text_file import (
    TextRowReader,
    TextRowWriter,
    check_header,
    open_text,
    wrap_text,
)

if TYPE_CHECKING:
    from purgatory.trace.tables import Table


class JsonRowReader(TextRowReader):
    """Reads the lines of one file; `number` is that of the last one."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._names: tuple[str, ...] = ()
        self._file = open_text(path, newline="\n")

    def columns(self) -> Sequence[str]:
        """Return the names in the first line, if that is an object."""
        with open_text(self._path, newline="\n") as file:
            first = next((line for line in file if not line.isspace()), "")
        try:
            return tuple(_object_of(first))
        except BadValue:
            return ()

    def bind(self, table: Table[Any]) -> None:
        """Choose the table to read; a line that lacks a column is a bad row, not a bad file."""
        self._names = table.names

    def records(self) -> Iterator[Any]:
        """Yield the lines, to be given to `values`."""
        for self.number, line in enumerate(self._file, 1):  # noqa: B020 - it does not
            if self.number == 1:
                check_header(self._path, line)
            if not line.isspace():
                yield line

    def values(self, line: str) -> Iterator[object]:
        """Return the values of the table's columns; `BadValue` when the line is no object."""
        return map(_object_of(line).get, self._names)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class JsonRowWriter(TextRowWriter):
    """Writes rows into a file already open; `close` ends the text and leaves the file open."""

    def __init__(self, file: IO[bytes], path: Path, table: Table[Any]) -> None:
        self._text = wrap_text(file, path)
        self._names = table.names
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def write(self, row: tuple[Any, ...]) -> None:
        """Write a row."""
        self._text.write(self._encode(dict(zip(self._names, row, strict=True))) + "\n")

    def close(self) -> None:
        """Write what is buffered and end the text."""
        self._text.close()


def _object_of(line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadValue("", line.strip(), "one JSON object on the line")
    return found
