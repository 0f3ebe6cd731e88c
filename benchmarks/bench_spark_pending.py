"""Measures a small micro-batch of the stream over many pending operations.

    python benchmarks/bench_spark_pending.py [--pending 1000,300000,3000000] [--design operators]

For each size in turn: a stream takes so many operations that stay pending, and then micro-batches
of 100 operations and 100 events, of keys chosen at random. Beside it, empty micro-batches of Spark,
from one directory with nothing to do. Wall and CPU seconds of all processes, medians of the second
half of the micro-batches, as Java is slow at first. `--design operators` measures the design that
was not taken, `spark_operators.py`.
"""

import argparse
import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_spark import MEMORY
from bench_spark_stream import Mark, now, since
from harness import machine, table
from pyspark.sql import DataFrame, SparkSession
from spark_operators import EVENTS, read, run_batches, run_join

from purgatory.spark.session import open_session, temporary_settings
from purgatory.spark.stream.query import Stream, rocks_db_settings
from purgatory.spark.stream.sources import directory_source

SIZES = "1000,300000,3000000"
FILL = 1_000_000  # operations a micro-batch while the stream fills
SMALL = 100
NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


class Input:
    """The two input directories of a stream."""

    def __init__(self, path: Path, pending: int) -> None:
        self.path = path
        self._files = 0
        self._rng = np.random.default_rng(1)
        self._pending = pending
        for name in ("operations", "events"):
            (path / name).mkdir()

    def fill(self) -> None:
        """Add operations of the last hour, which stay pending for another one."""
        for begin in range(0, self._pending, FILL):
            ids = np.arange(begin, min(begin + FILL, self._pending))
            self._operations(ids, NOW_MS - HOUR_MS + ids * HOUR_MS // self._pending, 2 * HOUR_MS)
            self._events(["none"], NOW_MS - HOUR_MS + int(ids[-1]) * HOUR_MS // self._pending)

    def small(self, number: int) -> None:
        """Add the rows of a small micro-batch."""
        at_ms = NOW_MS + 1000 * number
        ids = self._pending + number * SMALL + np.arange(SMALL)
        self._operations(ids, np.full(SMALL, at_ms), HOUR_MS)
        self._events([f"k{n}" for n in self._rng.integers(0, self._pending, SMALL)], at_ms)

    def _operations(self, ids: np.ndarray, submitted_ms: np.ndarray, longest_ms: int) -> None:
        timeout_ms = self._rng.integers(longest_ms, 2 * longest_ms, len(ids))
        rows = {
            "op_id": [f"o{n}" for n in ids],
            "submitted_ms": submitted_ms,
            "timeout_ms": timeout_ms,
            "keys": [[f"k{n}"] if n % 2 else [f"k{n}", f"l{n}"] for n in ids],
        }
        self._put("operations", pa.table(rows))

    def _events(self, keys: list[str], at_ms: int) -> None:
        self._put("events", pa.table({"key": keys, "at_ms": [at_ms] * len(keys)}))

    def _put(self, name: str, rows: pa.Table) -> None:
        self._files += 1
        file = self.path / f"{self._files}.parquet"
        pq.write_table(rows, file)
        os.utime(file, (self._files, self._files))
        file.rename(self.path / name / f"{self._files:06}.parquet")


def run_stream(spark: SparkSession, path: Path) -> list[Mark]:
    """Take what is there; return the times before and after each micro-batch."""
    marks = [now()]
    one_file = {"maxFilesPerTrigger": "1"}
    Stream(
        spark,
        directory_source(spark, f"{path}/operations", one_file),
        directory_source(spark, f"{path}/events", one_file),
        out=f"{path}/out",
        checkpoint=f"{path}/checkpoint",
        watermark_ms=0,
        on_commit=lambda _: marks.append(now()),
    ).run(once=True)
    return marks


def run_operators(spark: SparkSession, path: Path) -> list[Mark]:
    """Do the same with Spark's operators, with the same state store and as many shards."""
    marks = [now()]
    with temporary_settings(spark, rocks_db_settings(spark.sparkContext.defaultParallelism)):
        run_join(spark, str(path), lambda: marks.append(now()))
    return marks


DESIGNS = {"shards": run_stream, "operators": run_operators}


def run_empty(spark: SparkSession, path: Path) -> list[Mark]:
    """Let Spark take the events, and do nothing; return the times."""
    marks = [now()]

    def count(rows: DataFrame, _: int) -> None:
        rows.count()
        marks.append(now())

    rows = read(spark, f"{path}/events", EVENTS).where("at_ms < 0")
    run_batches(rows, count, f"{path}/empty")
    return marks


def typical(marks: list[Mark]) -> Mark:
    """Return the median micro-batch of the second half."""
    batches = [since(*pair) for pair in pairwise(marks)]
    later = batches[len(batches) // 2 :]
    walls, seconds = (sorted(column) for column in zip(*later, strict=True))
    return Mark(walls[len(walls) // 2], seconds[len(seconds) // 2])


def figures(spark: SparkSession, design: str, pending: int, batches: int) -> list[str]:
    """Return the row of a size."""
    run = DESIGNS[design]
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        feed = Input(Path(name), pending)
        feed.fill()
        begin = now()
        run(spark, feed.path)
        filled = since(begin, now())
        print(f"{pending:,} pending: filled in {filled.wall:.0f} s", file=sys.stderr)
        for number in range(batches):
            feed.small(number)
        small, empty = typical(run(spark, feed.path)), typical(run_empty(spark, feed.path))
    row = [f"{pending:,}", *(f"{n:.1f}" for n in (*small, *empty))]
    print(*row, file=sys.stderr)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", default=SIZES)
    parser.add_argument("--design", choices=DESIGNS, default="shards")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--memory", default=MEMORY, help="of Spark's Java process")
    arguments = parser.parse_args()
    print(machine())
    with open_session(memory=arguments.memory) as spark:
        sizes = map(int, arguments.pending.split(","))
        rows = [figures(spark, arguments.design, size, arguments.batches) for size in sizes]
    head = ["pending", "seconds", "CPU seconds", "empty: seconds", "CPU seconds"]
    print(table(f"A micro-batch of {SMALL} operations and {SMALL} events", head, rows))


if __name__ == "__main__":
    main()
