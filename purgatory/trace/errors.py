"""The errors of a trace, with one base; `bad_rows` has those about rows.

Users import them from `purgatory.trace`. Errors are immutable and may pass between threads.
"""

from __future__ import annotations

from typing import Final

from purgatory.errors import PurgatoryError

_VALUE_WIDTH: Final = 60


class TraceError(PurgatoryError, ValueError):
    """Raised when a trace cannot be read or written; the message names the file."""


class BadValue(TraceError):
    """Raised for a value that its column does not allow; the place in the file is not known."""

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
