"""The store's small tables, and SQL statements over many rows or values.

Store thread alone. Nothing here begins or ends a transaction; errors are SQLite's.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

_ROWS_PER_STATEMENT: Final = 512
_VALUES_PER_STATEMENT: Final = 500


class RowInserter:
    """Inserts many rows with a statement, in a few sizes, each compiled once.

    `nullable`: columns with an empty text for NULL. `limit`: variables of a statement, at most.
    """

    def __init__(
        self,
        table: str,
        columns: Sequence[str],
        limit: int,
        verb: str = "INSERT INTO",
        nullable: Sequence[str] = (),
    ) -> None:
        most = min(_ROWS_PER_STATEMENT, limit // len(columns))
        values = ["nullif(?, '')" if name in nullable else "?" for name in columns]
        row = f"({', '.join(values)})"
        self._columns = len(columns)
        self._sizes = [size for size in (512, 64, 8, 1) if size <= most]
        self._sql = {
            size: f"{verb} {table} ({', '.join(columns)}) VALUES {', '.join([row] * size)}"
            for size in self._sizes
        }

    def run(self, execute: Callable[[str, list[Any]], object], values: list[Any]) -> None:
        """Insert the rows of a flat list of values."""
        start, end = 0, len(values)
        if end == self._columns:  # mostly
            execute(self._sql[1], values)
            return
        for size in self._sizes:
            step = size * self._columns
            while end - start >= step:
                execute(self._sql[size], values[start : start + step])
                start += step


def chunks(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield portions that fit into a statement."""
    for start in range(0, len(values), _VALUES_PER_STATEMENT):
        yield values[start : start + _VALUES_PER_STATEMENT]


def placeholders(values: Sequence[Any]) -> str:
    """Return a list of placeholders."""
    return f"({', '.join('?' * len(values))})"


class StoredTable:
    """The table `name`; rows replace those of the same key, the first of `columns`.

    `times`: the columns that `shift_times` moves. `kept`: a row of an existing key is an error.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        limit: int,
        name: str,
        columns: Sequence[str],
        times: Sequence[str] = ("at_ms",),
        kept: bool = False,
    ) -> None:
        self._execute = connection.execute
        self._name = name
        self._columns = columns
        self._times = times
        verb = "INSERT INTO" if kept else "INSERT OR REPLACE INTO"
        self._insert = RowInserter(name, columns, limit, verb)
        # Nothing is looked up in an empty table.
        self._is_used = bool(self.select("LIMIT 1"))

    def write(self, rows: list[Any]) -> None:
        """Write rows, as a flat list of values."""
        self._is_used = True
        self._insert.run(self._execute, rows)

    def select(
        self, rest: str = "", values: Sequence[Any] = (), columns: Sequence[str] = ()
    ) -> list[Any]:
        """Return rows; `rest`: the statement's end."""
        names = ", ".join(columns or self._columns)
        return self._execute(f"SELECT {names} FROM {self._name} {rest}", values).fetchall()

    def select_keys(self, keys: Sequence[Any], columns: Sequence[str] = ()) -> list[Any]:
        """Return rows by key."""
        found: list[Any] = []
        for chunk in chunks(keys) if self._is_used else ():
            found += self.select(
                f"WHERE {self._columns[0]} IN {placeholders(chunk)}", chunk, columns
            )
        return found

    def delete(self, keys: Sequence[Any]) -> None:
        """Delete rows by key."""
        for chunk in chunks(keys) if self._is_used else ():
            where = f"WHERE {self._columns[0]} IN {placeholders(chunk)}"
            self._execute(f"DELETE FROM {self._name} {where}", chunk)

    def delete_where(self, condition: str, values: Sequence[Any] = ()) -> None:
        """Delete rows by a condition."""
        if self._is_used:
            self._execute(f"DELETE FROM {self._name} WHERE {condition}", values)

    def shift_times(self, by_ms: int, where: str = "") -> None:
        """Move the times of all rows, or by a condition."""
        moved = ", ".join(f"{time} = {time} + ?" for time in self._times)
        self._execute(f"UPDATE {self._name} SET {moved} {where}", [by_ms] * len(self._times))
