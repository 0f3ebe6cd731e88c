"""The store's small tables, and SQL statements over many rows or values at once.

Parts of `SqliteStore`, used by the store thread alone. Nothing here begins or ends a transaction;
errors are SQLite's.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from purgatory.service.store.rows import QueuedJob, QueueNumbers, pack_jobs, unpack_jobs
from purgatory.trace.tables import Extension, KeyEvent

_T = TypeVar("_T")

# How many rows a statement inserts, and how many values it names, at most.
_ROWS_PER_STATEMENT: Final = 512
_VALUES_PER_STATEMENT: Final = 500


class RowInserter:
    """Inserts many rows with one statement.

    The statements have a few sizes only, so that SQLite compiles each once. Those of `columns` that
    are `nullable` take an empty text for NULL. `limit`: how many variables SQLite allows in a
    statement. `verb`: the statement's first words.
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


class StoredTable:
    """A table `name` of an SQLite connection; rows are written instead of those of the same key.

    Its key is the first of `columns`. `times`: the columns that `shift_times` moves, milliseconds.
    `limit`: see `RowInserter`.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        limit: int,
        name: str,
        columns: Sequence[str],
        times: Sequence[str] = ("at_ms",),
    ) -> None:
        self._execute = connection.execute
        self._name = name
        self._columns = columns
        self._times = times
        self._insert = RowInserter(name, columns, limit, "INSERT OR REPLACE INTO")
        # Most servers do not use all tables: nothing is looked up in an empty one.
        self._is_used = bool(self.select("LIMIT 1"))

    def write(self, rows: list[Any]) -> None:
        """Write rows, given as a flat list of their values."""
        self._is_used = True
        self._insert.run(self._execute, rows)

    def select(
        self, rest: str = "", values: Sequence[Any] = (), columns: Sequence[str] = ()
    ) -> list[Any]:
        """Return rows; `rest`: what follows in the statement. `columns`: all by default."""
        names = ", ".join(columns or self._columns)
        return self._execute(f"SELECT {names} FROM {self._name} {rest}", values).fetchall()

    def select_keys(self, keys: Sequence[Any], columns: Sequence[str] = ()) -> list[Any]:
        """Return the rows of some keys."""
        found: list[Any] = []
        for chunk in chunks(keys) if self._is_used else ():
            found += self.select(
                f"WHERE {self._columns[0]} IN {placeholders(chunk)}", chunk, columns
            )
        return found

    def delete(self, keys: Sequence[Any]) -> None:
        """Delete the rows of some keys."""
        for chunk in chunks(keys) if self._is_used else ():
            where = f"WHERE {self._columns[0]} IN {placeholders(chunk)}"
            self._execute(f"DELETE FROM {self._name} {where}", chunk)

    def delete_where(self, condition: str) -> None:
        """Delete the rows of a condition."""
        if self._is_used:
            self._execute(f"DELETE FROM {self._name} WHERE {condition}")

    def shift_times(self, by_ms: int, where: str = "") -> None:
        """Move the times of all rows, or of those of a condition."""
        moved = ", ".join(f"{time} = {time} + ?" for time in self._times)
        self._execute(f"UPDATE {self._name} SET {moved} {where}", [by_ms] * len(self._times))


#: Names of the tables of `JournalQueue`.
EVENTS: Final = "queued_events"
EXTENSIONS: Final = "queued_extensions"
JOBS: Final = "queued_jobs"
_QUEUED: Final = (EVENTS, EXTENSIONS, JOBS)
_COLUMNS: Final = {
    EVENTS: ("number", *KeyEvent._fields),
    EXTENSIONS: ("number", *Extension._fields),
    JOBS: ("first", "number", "jobs"),
}


class JournalQueue:
    """The three tables of an SQLite connection. `limit`: see `RowInserter`.

    A row of jobs has all that ended in a transaction; its number is the last one's.
    """

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._inserters = [RowInserter(table, _COLUMNS[table], limit) for table in _QUEUED]

    def write(self, events: list[Any], extensions: list[Any], jobs: list[QueuedJob]) -> None:
        """Add events and extensions, given as flat lists of their values, and jobs."""
        packed = [jobs[0].number, jobs[-1].number, pack_jobs(jobs)] if jobs else []
        for inserter, values in zip(self._inserters, (events, extensions, packed), strict=True):
            if values:
                inserter.run(self._connection.execute, values)

    def delete(self, numbers: QueueNumbers) -> None:
        """Delete the rows up to these numbers: the journal has them."""
        for table, number in zip(_QUEUED, numbers, strict=True):
            self._connection.execute(f"DELETE FROM {table} WHERE number <= ?", (number,))

    def last(self) -> QueueNumbers:
        """Return the last number ever given in each table."""
        return self._last(EVENTS), self._last(EXTENSIONS), self._last(JOBS)

    def _last(self, table: str) -> int:
        sql = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        row = self._connection.execute(sql, (table,)).fetchone()
        return row[0] if row else 0

    def deleted(self) -> QueueNumbers:
        """Return up to which numbers the rows of each table have been deleted."""
        return self._deleted(EVENTS), self._deleted(EXTENSIONS), self._deleted(JOBS)

    def _deleted(self, table: str) -> int:
        column = _COLUMNS[table][0]
        first = self._connection.execute(f"SELECT min({column}) FROM {table}").fetchone()[0]
        return self._last(table) if first is None else first - 1

    def last_event_ms(self, after: int) -> int | None:
        """Return the time of the last event numbered above `after`; None if none exists."""
        sql = f"SELECT at_ms FROM {EVENTS} WHERE number > ? ORDER BY number DESC LIMIT 1"
        row = self._connection.execute(sql, (after,)).fetchone()
        return row[0] if row else None

    def jobs(self, after: int) -> list[QueuedJob]:
        """Return the jobs with numbers above `after`, in order."""
        packed = [jobs for _, _, jobs in self._rows(JOBS, after)]
        return [job for jobs in packed for job in unpack_jobs(jobs) if job.number > after]

    def events(self, after: int) -> list[Any]:
        """Return the rows of events with numbers above `after`, in order."""
        return self._rows(EVENTS, after)

    def extensions(self, after: int) -> list[Any]:
        """Return those of extensions."""
        return self._rows(EXTENSIONS, after)

    def _rows(self, table: str, after: int) -> list[Any]:
        names = ", ".join(_COLUMNS[table])
        sql = f"SELECT {names} FROM {table} WHERE number > ? ORDER BY number"
        return self._connection.execute(sql, (after,)).fetchall()
