"""Directories that a stream reads, filled with the rows of a trace, and what the stream wrote."""

import os
from pathlib import Path

from purgatory.spark.stream.query import Stream
from purgatory.spark.stream.sources import directory_source
from purgatory.trace import read_outcomes, write_events, write_extensions, write_operations
from tests.testing.traces import Trace

WRITERS = {
    "operations": write_operations,
    "events": write_events,
    "extensions": write_extensions,
}


class StreamInput:
    """The input directories of a stream, its output and its checkpoint, below one path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out = path / "out"
        self.checkpoint = path / "checkpoint"
        self._files = 0
        for table in WRITERS:
            (path / table).mkdir(parents=True, exist_ok=True)

    def put(self, table, rows, *, name=None, suffix=".parquet"):
        """Write a table's file. Spark reads files in the order of their times, so these are set."""
        self._files += 1
        file = self.path / table / f"{name or f'{self._files:04}'}{suffix}"
        hidden = self.path / f"{self._files}{suffix}"
        with WRITERS[table](hidden) as out:
            for row in rows:
                out.write(row)
        self._move(hidden, file)

    def put_bytes(self, table, data, *, suffix):
        """Write a table's next file."""
        hidden = self.path / f"hidden{suffix}"
        hidden.write_bytes(data)
        self.adopt(table, hidden)

    def adopt(self, table, file):
        """Move an existing file there as the next one."""
        self._files += 1
        self._move(file, self.path / table / f"{self._files:04}{file.suffix}")

    def put_trace(self, trace: Trace, files: int, suffix=".parquet"):
        """Split both tables into so many files, in the order of their rows."""
        for table, rows in zip(WRITERS, trace, strict=False):
            size = -(-len(rows) // files)
            for part in range(files):
                self.put(table, rows[part * size : (part + 1) * size], suffix=suffix)

    def stream(self, spark, *, files_a_batch=1, source_options=None, **options):
        """Make a stream over the directories; with one shard, unless the options say so.

        `source_options`: those of Spark's source, by table.
        """
        read = {"maxFilesPerTrigger": str(files_a_batch)}
        given = source_options or {}
        operations, events, extensions = (
            directory_source(spark, str(self.path / table), read | given.get(table, {}))
            for table in WRITERS
        )
        given = {"out": str(self.out), "checkpoint": str(self.checkpoint), **options}
        if not self.checkpoint.exists():
            given.setdefault("shards", 1)
        if any((self.path / "extensions").iterdir()):
            given["extensions"] = extensions
        return Stream(spark, operations, events, **given)

    def outcomes(self):
        """Return all outcomes published so far, sorted."""
        if not any(self.out.glob("*.parquet")):
            return []
        with read_outcomes(self.out) as rows:
            return sorted(rows, key=repr)

    def _move(self, file, target):
        os.utime(file, (1_000_000_000 + self._files,) * 2)
        file.rename(target)
