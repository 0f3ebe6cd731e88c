"""ReplyTable: the store's table of replies that can be repeated; see `RememberedReplies`.

Part of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from purgatory.service.store.statements import RowInserter


class ReplyTable:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert = RowInserter("replies", ["?"] * 4, limit, "INSERT OR REPLACE INTO")

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
        return self._connection.execute("SELECT * FROM replies ORDER BY at_ms, seq").fetchall()
