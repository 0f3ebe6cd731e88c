"""What can be wrong with a trace: one base, each error naming the file and the place in it.

Used by all of `purgatory.trace`; callers import these names from the package. Errors and bad rows
are immutable values and may pass between threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from purgatory.errors import PurgatoryError

SHOWN = 5  # so many bad rows are described; the others are only counted
_VALUE_WIDTH = 60


class TraceError(PurgatoryError, ValueError):
    """A trace cannot be read or written; the message names the file."""


class BadValue(TraceError):
    """A value that its column does not allow; the place in the file is not known here."""

    def __init__(self, column: str, value: object, expected: str) -> None:
        super().__init__(column, value, expected)
        self.column = column
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        found = "nothing" if self.value is None else _shortened(self.value)
        column = f"column {self.column}: " if self.column else ""
        return f"{column}{found}, expected {self.expected}"


@dataclass(frozen=True, slots=True)
class BadRow:
    """One row that its table does not allow.

    `unit` and `number` say where it stands: a physical `line` of a text file (where the row
    begins), or the `row`, counted from 1, of a Parquet file. `column` is empty when the whole row
    is unreadable; `value` is None when there was none.
    """

    path: str
    unit: str
    number: int
    column: str
    value: object
    expected: str

    def __str__(self) -> str:
        what = BadValue(self.column, self.value, self.expected)
        return f"{self.path}, {self.unit} {self.number}, {what}"


class BadRows(TraceError):
    """Reading stopped at rows that the table does not allow.

    `rows` are the first of them, at most five; `more` is true when the file was not read to its
    end, so that there may be more.
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


class OutOfOrder(TraceError):
    """A row's time lies before that of the row ahead of it."""

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


@dataclass(slots=True)
class SkippedRows:
    """Counts bad rows and keeps the first five: give it to a reader as `on_bad` to skip them.

    Owned by the thread that reads.
    """

    count: int = 0
    first: list[BadRow] = field(default_factory=list)

    def __call__(self, row: BadRow) -> None:
        """Count a bad row."""
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(row)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 3] + "..."
