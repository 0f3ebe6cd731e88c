"""HeldEventTable: the store's table of events that also count for operations submitted later.

Part of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from purgatory.service.store.statements import RowInserter, chunks, placeholders

#: The units of an event that counts for any number of operations.
UNLIMITED: Final = -1


class StoredEvent(NamedTuple):
    """An event that is held from `at_ms` to `until_ms`, both included, Unix milliseconds.

    `number` grows in the order in which events came. `units`: for how many more operations it
    counts, or UNLIMITED. `value` is MessagePack.
    """

    number: int
    at_ms: int
    until_ms: int
    units: int
    value: bytes


class HeldEventTable:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert = RowInserter("held", ["?"] * 6, limit, "INSERT OR REPLACE INTO")

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
        rows = self._connection.execute("SELECT * FROM held").fetchall()
        return [(key, StoredEvent(*values)) for key, *values in rows]

    def shift_times(self, by_ms: int) -> None:
        """Move the times of all events."""
        sql = "UPDATE held SET at_ms = at_ms + ?, until_ms = until_ms + ?"
        self._connection.execute(sql, (by_ms, by_ms))
