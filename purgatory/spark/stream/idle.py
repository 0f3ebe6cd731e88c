"""Lets event time go on with the clock while a source is idle.

A quiet source and one that has stopped look alike, so this is the user's choice. A source that had
no row for `idle_seconds` counts as having reached the newest time of all sources, plus the time
since the last row of any of them. The time goes into the stream as a row of the control source, so
a micro-batch that is repeated sees the same.

Used by the thread in `Stream.run`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from purgatory.spark.stream.packing import REACHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from purgatory.spark.stream.control import ControlSource
    from purgatory.spark.stream.entry import CheckpointEntry


class IdleClock:
    """Watches what the micro-batches tell, and advances the time of idle sources."""

    def __init__(
        self, control: ControlSource, tables: Sequence[str], idle_seconds: float | None
    ) -> None:
        now = time.monotonic()
        self._control = control
        self._tables = tables
        self._idle_seconds = idle_seconds
        self._rows = dict.fromkeys(tables, -1)  # of each source so far
        self._since = dict.fromkeys(tables, now)  # when the last of them were seen
        self._newest_ms = 0  # of all sources, when the last row was seen
        self._next = now

    def tick(self, entry: CheckpointEntry, now: float) -> None:
        """Look at the clock, in seconds; at most once in `idle_seconds` a row is added."""
        if self._idle_seconds is None or not entry.newest_ms:
            return
        for table in self._tables:
            rows = sum(entry.counts[f"{fate}{table}"] for fate in ("", "late_"))
            if rows != self._rows[table]:
                self._rows[table], self._since[table] = rows, now
                self._newest_ms = max(entry.newest_ms.values())
        idle = [t for t in self._tables if now - self._since[t] >= self._idle_seconds]
        if idle and now >= self._next and entry.pending:
            elapsed_ms = round((now - max(self._since.values())) * 1000)
            reached_ms = self._newest_ms + elapsed_ms
            reached = [{"table": f"{REACHED}{table}", "time_ms": reached_ms} for table in idle]
            self._control.add(reached)
            self._next = now + self._idle_seconds
