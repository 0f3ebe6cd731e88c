"""SQL statements over many rows or values at once. The store thread alone."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

# Rows that one statement inserts, and values that one statement names, at most.
_ROWS_PER_STATEMENT: Final = 512
_VALUES_PER_STATEMENT: Final = 500


class RowInserter:
    """Inserts many rows with one statement.

    The statements have a few sizes only, so that SQLite compiles each once. `values` are the SQL
    expressions of a row; `limit` is how many variables SQLite allows in a statement. `verb`: the
    statement's first words.
    """

    def __init__(
        self, table: str, values: Sequence[str], limit: int, verb: str = "INSERT INTO"
    ) -> None:
        most = min(_ROWS_PER_STATEMENT, limit // len(values))
        row = f"({', '.join(values)})"
        self._columns = len(values)
        self._sizes = [size for size in (512, 64, 8, 1) if size <= most]
        self._sql = {
            size: f"{verb} {table} VALUES {', '.join([row] * size)}" for size in self._sizes
        }

    def run(self, execute: Callable[[str, list[Any]], object], values: list[Any]) -> None:
        """Insert the rows of a flat list of values."""
        start, end = 0, len(values)
        if end == self._columns:  # mostly it is one row
            execute(self._sql[1], values)
            return
        for size in self._sizes:
            step = size * self._columns
            while end - start >= step:
                execute(self._sql[size], values[start : start + step])
                start += step


def chunks(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield the values in portions that fit into a statement."""
    for start in range(0, len(values), _VALUES_PER_STATEMENT):
        yield values[start : start + _VALUES_PER_STATEMENT]


def placeholders(values: Sequence[Any]) -> str:
    """Return the SQL of a list with a placeholder for each value."""
    return f"({', '.join('?' * len(values))})"
