"""JournalQueue: the store's tables of events and extensions that the journal does not have yet.

Operations and outcomes are kept for their own sake, so the journal reads those from their tables.
Part of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from typing import Any, Final

from purgatory.service.store.statements import RowInserter

_EVENTS: Final = "queued_events"
_EXTENSIONS: Final = "queued_extensions"


class JournalQueue:
    """The two tables of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert_events = RowInserter(_EVENTS, ["?"] * 5, limit)
        self._insert_extensions = RowInserter(_EXTENSIONS, ["?"] * 4, limit)

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
        sql = f"SELECT * FROM {table} WHERE number > ? ORDER BY number"
        return self._connection.execute(sql, (after,)).fetchall()
