"""The store's small tables, and SQL statements over many rows or values at once.

Parts of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from purgatory.service.store.rows import StoredEvent, StoredJob, StoredOperation
from purgatory.trace.rows import Extension, KeyEvent

_T = TypeVar("_T")

# Rows that one statement inserts, and values that one statement names, at most.
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


class Deadlines:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert = RowInserter(
            "deadlines", ("number", "deadline_ms"), limit, "INSERT OR REPLACE INTO"
        )
        # Most servers extend nothing: then nothing is looked up.
        self._is_used = connection.execute("SELECT 1 FROM deadlines LIMIT 1").fetchone() is not None

    def write(self, rows: list[Any]) -> None:
        """Set deadlines, given as a flat list of numbers and deadlines; the last one counts."""
        self._is_used = True
        self._insert.run(self._connection.execute, rows)

    def apply(self, operations: Sequence[StoredOperation]) -> list[StoredOperation]:
        """Return operations with the deadlines that are in force."""
        if not self._is_used:
            return list(operations)
        found: dict[int, int] = {}
        for chunk in chunks([operation.number for operation in operations]):
            sql = f"SELECT number, deadline_ms FROM deadlines WHERE number IN {placeholders(chunk)}"
            found.update(self._connection.execute(sql, chunk).fetchall())
        return [
            operation._replace(deadline_ms=found.get(operation.number, operation.deadline_ms))
            for operation in operations
        ]

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete the deadlines of operations that are deleted."""
        if self._is_used:
            for chunk in chunks(numbers):
                sql = f"DELETE FROM deadlines WHERE number IN {placeholders(chunk)}"
                self._connection.execute(sql, chunk)

    def shift_times(self, by_ms: int) -> None:
        """Move the deadlines of all operations that have no outcome."""
        self._connection.execute(
            "UPDATE deadlines SET deadline_ms = deadline_ms + ? "
            "WHERE number NOT IN (SELECT number FROM outcomes)",
            (by_ms,),
        )


class HeldEventTable:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._columns = ("key", *StoredEvent._fields)
        self._insert = RowInserter("held", self._columns, limit, "INSERT OR REPLACE INTO")

    def write(self, rows: list[Any]) -> None:
        """Hold events, given as a flat list of their keys and values, instead of earlier ones."""
        self._insert.run(self._connection.execute, rows)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete what is held for some keys."""
        for chunk in chunks(keys):
            sql = f"DELETE FROM held WHERE key IN {placeholders(chunk)}"
            self._connection.execute(sql, chunk)

    def all(self) -> list[tuple[str, StoredEvent]]:
        """Return all keys and their events."""
        rows = self._connection.execute(f"SELECT {', '.join(self._columns)} FROM held").fetchall()
        return [(key, StoredEvent(*values)) for key, *values in rows]

    def shift_times(self, by_ms: int) -> None:
        """Move the times of all events."""
        sql = "UPDATE held SET at_ms = at_ms + ?, until_ms = until_ms + ?"
        self._connection.execute(sql, (by_ms, by_ms))


class JobTable:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        columns = (*StoredJob._fields, "error")
        self._insert = RowInserter("jobs", columns, limit, "INSERT OR REPLACE INTO")
        # A server without workers looks nothing up.
        self._is_used = connection.execute("SELECT 1 FROM jobs LIMIT 1").fetchone() is not None

    def write(self, rows: list[Any]) -> None:
        """Note what has become of jobs, as a flat list of the fields of `StoredJob` and errors."""
        self._is_used = True
        self._insert.run(self._connection.execute, rows)

    def delete(self, seqs: Sequence[int]) -> None:
        """Delete the jobs of outcomes that are deleted."""
        if self._is_used:
            for chunk in chunks(seqs):
                self._connection.execute(
                    f"DELETE FROM jobs WHERE seq IN {placeholders(chunk)}", chunk
                )

    def all(self) -> list[StoredJob]:
        """Return all jobs of which anything is known."""
        sql = f"SELECT {', '.join(StoredJob._fields)} FROM jobs"
        return [StoredJob(*row) for row in self._connection.execute(sql).fetchall()]

    def dead(self, seqs: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return of jobs, by `seq`, when they were given up, and why; at most 500 at a time."""
        sql = f"SELECT seq, at_ms, error FROM jobs WHERE seq IN {placeholders(seqs)}"
        return {seq: (at_ms, error) for seq, at_ms, error in self._connection.execute(sql, seqs)}

    def shift_times(self, by_ms: int) -> None:
        """Move the times of all jobs."""
        self._connection.execute("UPDATE jobs SET at_ms = at_ms + ?", (by_ms,))


_EVENTS: Final = "queued_events"
_EXTENSIONS: Final = "queued_extensions"
_COLUMNS: Final = {
    _EVENTS: ("number", *KeyEvent._fields),
    _EXTENSIONS: ("number", *Extension._fields),
}
_REPLY: Final = ("session", "seq", "at_ms", "reply")


class JournalQueue:
    """The two tables of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert_events = RowInserter(_EVENTS, _COLUMNS[_EVENTS], limit)
        self._insert_extensions = RowInserter(_EXTENSIONS, _COLUMNS[_EXTENSIONS], limit)

    def write(self, events: list[Any], extensions: list[Any]) -> None:
        """Add rows, given as flat lists of their values."""
        if events:
            self._insert_events.run(self._connection.execute, events)
        if extensions:
            self._insert_extensions.run(self._connection.execute, extensions)

    def delete(self, events: int, extensions: int) -> None:
        """Delete the rows up to these numbers: the journal has them."""
        self._connection.execute(f"DELETE FROM {_EVENTS} WHERE number <= ?", (events,))
        self._connection.execute(f"DELETE FROM {_EXTENSIONS} WHERE number <= ?", (extensions,))

    def last(self) -> tuple[int, int]:
        """Return the last number ever given to an event, and to an extension."""
        return self._last(_EVENTS), self._last(_EXTENSIONS)

    def _last(self, table: str) -> int:
        sql = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        row = self._connection.execute(sql, (table,)).fetchone()
        return row[0] if row else 0

    def deleted(self) -> tuple[int, int]:
        """Return up to which numbers events, and extensions, have been deleted."""
        return self._deleted(_EVENTS), self._deleted(_EXTENSIONS)

    def _deleted(self, table: str) -> int:
        first = self._connection.execute(f"SELECT min(number) FROM {table}").fetchone()[0]
        return self._last(table) if first is None else first - 1

    def last_event_ms(self, after: int) -> int | None:
        """Return the time of the last event numbered above `after`; None if there is none."""
        sql = f"SELECT at_ms FROM {_EVENTS} WHERE number > ? ORDER BY number DESC LIMIT 1"
        row = self._connection.execute(sql, (after,)).fetchone()
        return row[0] if row else None

    def events(self, after: int) -> list[Any]:
        """Return the rows of events with numbers above `after`, in order."""
        return self._rows(_EVENTS, after)

    def extensions(self, after: int) -> list[Any]:
        """Return the rows of extensions with numbers above `after`, in order."""
        return self._rows(_EXTENSIONS, after)

    def _rows(self, table: str, after: int) -> list[Any]:
        names = ", ".join(_COLUMNS[table])
        sql = f"SELECT {names} FROM {table} WHERE number > ? ORDER BY number"
        return self._connection.execute(sql, (after,)).fetchall()


class ReplyTable:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert = RowInserter("replies", _REPLY, limit, "INSERT OR REPLACE INTO")

    def write(self, rows: list[Any]) -> None:
        """Add replies, given as a flat list of sessions, numbers, times and frames."""
        self._insert.run(self._connection.execute, rows)

    def delete(self, names: Sequence[tuple[str, int]]) -> None:
        """Delete replies by session and number."""
        sql = "DELETE FROM replies WHERE session = ? AND seq = ?"
        self._connection.executemany(sql, names)

    def shift_times(self, by_ms: int) -> None:
        """Move the times of all replies."""
        self._connection.execute("UPDATE replies SET at_ms = at_ms + ?", (by_ms,))

    def all(self) -> list[tuple[str, int, int, bytes]]:
        """Return session, number, time and frame of all replies, those of a session in order."""
        sql = f"SELECT {', '.join(_REPLY)} FROM replies ORDER BY at_ms, seq"
        return self._connection.execute(sql).fetchall()
