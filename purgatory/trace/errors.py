"""The errors of a trace, and descriptions of bad rows.

Immutable; errors may pass between threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from purgatory.errors import PurgatoryError

_VALUE_WIDTH: Final = 60


class TraceError(PurgatoryError, ValueError):
    """Raised when a trace cannot be read or written; names the file."""


class BadValue(TraceError):
    """Raised for a value against its column's rule; knows no place."""

    def __init__(self, column: str, value: object, expected: str) -> None:
        super().__init__(column, value, expected)
        self.column = column
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        found = "nothing" if self.value is None else _shortened(self.value)
        column = f"column {self.column}: " if self.column else ""
        return f"{column}{found}, expected {self.expected}"


class OutOfOrder(TraceError):
    """Raised for a row with an earlier time than the row before it."""

    def __init__(self, place: str, column: str, before_ms: int, at_ms: int) -> None:
        super().__init__(place, column, before_ms, at_ms)
        self.place = place
        self.column = column
        self.before_ms = before_ms
        self.at_ms = at_ms

    def __str__(self) -> str:
        return (
            f"{self.place}: out of time order, {self.column} {self.at_ms} follows {self.before_ms}"
        )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 3] + "..."


#: Most bad rows in an error.
SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row against the rules of a table.

    `unit` and `number`: its place, the `line` of a text file or the `row` of a Parquet file,
    counted from 1. `column`: empty if the whole row is unreadable. `value`: None if missing.
    """

    path: str
    unit: str
    number: int
    column: str
    value: object
    expected: str

    @classmethod
    def at(cls, path: str, unit: str, number: int, error: BadValue) -> BadRow:
        """Make a bad row of a bad value."""
        return cls(path, unit, number, error.column, error.value, error.expected)

    def __str__(self) -> str:
        what = BadValue(self.column, self.value, self.expected)
        return f"{self.path}, {self.unit} {self.number}, {what}"


class BadRows(TraceError):
    """Raised for rows that the table does not allow.

    `rows`: the first bad rows, at most five; `more`: there may be more.
    """

    def __init__(self, rows: tuple[BadRow, ...], more: bool) -> None:
        super().__init__(rows, more)
        self.rows = rows
        self.more = more

    def __str__(self) -> str:
        count = len(self.rows)
        head = "" if count == 1 and not self.more else f"{count} bad row{'s' * (count > 1)}: "
        tail = "; there may be more" if self.more else ""
        return head + "; ".join(map(str, self.rows)) + tail


@dataclass(slots=True)
class SkippedRows:
    """Counts bad rows and keeps the first five; pass it as `on_bad`.

    Belongs to the thread that reads.
    """

    count: int = 0
    first: list[BadRow] = field(default_factory=list)

    def __call__(self, row: BadRow) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(row)
