"""Advances event time without input: by rows in the files of a checkpoint's `control/`.

A file is needed until its times are in the state. Spark deletes a file when planning the second
micro-batch after its reading (`cleanSource`). Spark never visits a killed run's files again; the
next run begins with `discard_applied`.

One thread at a time, as for the checkpoint; `IdleClock` is used by the thread in `Stream.run`.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from purgatory.spark.filesystem import FileSystem, escape_glob
from purgatory.spark.stream.entry import CheckpointEntry
from purgatory.spark.stream.packing import CLOSE, REACHED
from purgatory.trace.validation import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SCHEMA: Final = StructType(
    [StructField("table", StringType()), StructField("time_ms", LongType())]
)
# Spark ignores files a day older than the newest; a source still idle then gets another.
_OPTIONS: Final = {"cleanSource": "delete", "maxFileAge": "1d"}
_SUFFIX: Final = ".jsonl"


class ControlSource:
    """The directory `path` of rows that advance event time."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self.path = path

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows, each with a `table` and a `time_ms`."""
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        self._file_system.create(f"{self.path}/{secrets.token_hex(8)}{_SUFFIX}", text)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return a streaming DataFrame of `table` and `time_ms`."""
        # Spark refuses a missing directory.
        self._file_system.create(f"{self.path}/.there", "")
        return spark.readStream.schema(_SCHEMA).options(**_OPTIONS).json(escape_glob(self.path))

    def discard_applied(self, entry: CheckpointEntry) -> None:
        """Delete the files whose times are all in the state of `entry`.

        Call after Spark has committed the micro-batch of `entry`, before a query runs: a repeated
        micro-batch reads its files.
        """
        for name in self._file_system.names(self.path):
            if name.endswith(_SUFFIX):
                path = f"{self.path}/{name}"
                rows = map(json.loads, self._file_system.read(path).splitlines())
                if all(row["time_ms"] <= _reached_ms(row["table"], entry) for row in rows):
                    self._file_system.delete(path)


def _reached_ms(table: str, entry: CheckpointEntry) -> int:
    if table == CLOSE:
        return entry.closed_ms
    newest_ms = entry.newest_ms.get(table.removeprefix(REACHED), INT64_MIN)
    return max(newest_ms, entry.closed_ms)


class IdleClock:
    """Advances event time with the clock while a source is idle.

    An idle source counts as having reached the newest time of all sources, plus the time since the
    last row of any source. A repeated micro-batch sees the same time, as a row of `control`.
    """

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
        """Add a row at most once in `idle_seconds`; `now`: in seconds."""
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
