"""JobTable: the store's table of what has become of jobs that are due; see `JobLeases`.

Part of `Store`, used by the store thread alone. Nothing here begins or ends a transaction; errors
are SQLite's.
"""

import sqlite3
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from purgatory.service.store.statements import RowInserter, chunks, placeholders


class JobState(IntEnum):
    """What has become of a job."""

    WAITING = 0  # for its next attempt
    DONE = 1
    DEAD = 2  # given up


class StoredJob(NamedTuple):
    """A job; `seq` is the sequence number of its outcome, `attempts` those that have ended.

    `at_ms`, Unix milliseconds: the next attempt is not before that; or when it was done or died.
    """

    seq: int
    state: int
    attempts: int
    at_ms: int


class JobTable:
    """The table of an SQLite connection. `limit`: see `RowInserter`."""

    def __init__(self, connection: sqlite3.Connection, limit: int) -> None:
        self._connection = connection
        self._insert = RowInserter("jobs", ["?"] * 5, limit, "INSERT OR REPLACE INTO")
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
        rows = self._connection.execute("SELECT seq, state, attempts, at_ms FROM jobs").fetchall()
        return [StoredJob(*row) for row in rows]

    def dead(self, seqs: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return of jobs, by `seq`, when they were given up, and why; at most 500 at a time."""
        sql = f"SELECT seq, at_ms, error FROM jobs WHERE seq IN {placeholders(seqs)}"
        return {seq: (at_ms, error) for seq, at_ms, error in self._connection.execute(sql, seqs)}

    def shift_times(self, by_ms: int) -> None:
        """Move the times of all jobs."""
        self._connection.execute("UPDATE jobs SET at_ms = at_ms + ?", (by_ms,))
