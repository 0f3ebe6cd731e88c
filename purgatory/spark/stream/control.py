"""Rows of a checkpoint that advance event time without input: a file each time, in `control/`.

Their times only grow, and a shard takes the largest. So a file is needed until its times are in
the state: Spark deletes it when it plans the micro-batch after the one that has read it
(`cleanSource`), which is after that one was committed. A run that was killed in between leaves
files that Spark never looks at again; `discard_applied` deletes these when the next run begins.

One thread at a time, as for the checkpoint.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from purgatory.spark.stream.packing import CLOSE, REACHED
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from purgatory.spark.filesystem import FileSystem
    from purgatory.spark.stream.entry import CheckpointEntry

_SCHEMA: Final = StructType(
    [StructField("table", StringType()), StructField("time_ms", LongType())]
)
# Spark forgets the names of files that are a day older than the newest one. One that it never
# read and then ignores advances nothing; as the source is still idle, the next one does.
_OPTIONS: Final = {"cleanSource": "delete", "maxFileAge": "1d"}
_SUFFIX: Final = ".jsonl"


class ControlSource:
    """The directory `path` of rows that advance event time."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self.path = path

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows, each with a `table` and a `time_ms`, for the next micro-batch."""
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        self._file_system.create(f"{self.path}/{secrets.token_hex(8)}{_SUFFIX}", text)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a streaming DataFrame with the columns `table` and `time_ms`."""
        # Spark refuses a directory that is not there.
        self._file_system.create(f"{self.path}/.there", "")
        return spark.readStream.schema(_SCHEMA).options(**_OPTIONS).json(self.path)

    def discard_applied(self, entry: CheckpointEntry) -> None:
        """Delete the files whose times are all in the state of `entry`.

        Call it only if Spark has committed the micro-batch of `entry`, and before a query runs: a
        micro-batch that is repeated reads its files again, and passes over those that are gone.
        """
        for name in self._file_system.names(self.path):
            path = f"{self.path}/{name}"
            if name.endswith(_SUFFIX) and self._is_applied(path, entry):
                self._file_system.delete(path)

    def _is_applied(self, path: str, entry: CheckpointEntry) -> bool:
        rows = map(json.loads, self._file_system.read(path).splitlines())
        return all(row["time_ms"] <= _reached_ms(row["table"], entry) for row in rows)


def _reached_ms(table: str, entry: CheckpointEntry) -> int:
    """Return the time up to which rows of `table` change nothing."""
    if table == CLOSE:
        return entry.closed_ms
    newest_ms = entry.newest_ms.get(table.removeprefix(REACHED), INT64_MIN)
    return max(newest_ms, entry.closed_ms)
