"""Deadlines: the store's table of the deadlines of operations that were extended.

Part of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.statements import RowInserter, chunks, placeholders


class Deadlines:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert = RowInserter("deadlines", ["?"] * 2, limit, "INSERT OR REPLACE INTO")
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
