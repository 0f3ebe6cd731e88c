"""Measures the throughput of the stream, compared with the batch over the same rows.

    python benchmarks/bench_spark_stream.py [--size 1000000] [--files 10] [--memory 4g]

The operations and events of a day, as in `bench_spark.py` but with timeouts of up to an hour, are
split into files by time; each micro-batch takes one file of each table. One session runs `resolve`
first, which warms it up, then the stream. Compares the outcomes, row by row, before it prints any
figure. One run, wall and CPU seconds; for a batch, the median of those after the first.
"""

import argparse
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench_spark import DAY_MS, MEMORY, cpu_seconds, make_trace, same_outcomes
from harness import machine, table
from pyspark.sql import SparkSession

from purgatory.spark.batch.job import resolve_files
from purgatory.spark.session import open_session
from purgatory.spark.stream.entry import CheckpointEntry
from purgatory.spark.stream.query import Stream
from purgatory.spark.stream.sources import directory_source

TIMES = {"operations": "submitted_ms", "events": "at_ms"}
LONGEST_MS = 3_600_000


class Mark(NamedTuple):
    """A point in time, or the seconds between two of them."""

    wall: float
    cpu: float


def now() -> Mark:
    """Return the current point in time."""
    return Mark(time.perf_counter(), cpu_seconds())


def since(begin: Mark, end: Mark) -> Mark:
    """Return the seconds between two points in time."""
    return Mark(end.wall - begin.wall, end.cpu - begin.cpu)


def cut(trace: Path, files: int) -> None:
    """Split each table into files of equal stretches of time, the oldest first."""
    for name, column in TIMES.items():
        rows = pq.read_table(trace / f"{name}.parquet")
        (trace / name).mkdir()
        part = pc.divide(rows[column], -(-DAY_MS // files))
        for number in range(files):
            file = trace / name / f"{number:04}.parquet"
            pq.write_table(rows.filter(pc.equal(part, number)), file)
            os.utime(file, (number + 1, number + 1))


def stream(spark: SparkSession, trace: Path) -> list[Mark]:
    """Run the stream to its end; return the times before it and after each commit."""
    marks = [now()]

    def mark(entry: CheckpointEntry) -> None:
        marks.append(now())
        print(f"batch {entry.batch}: {entry.pending:,} pending", file=sys.stderr)

    one_file = {"maxFilesPerTrigger": "1"}
    Stream(
        spark,
        directory_source(spark, f"{trace}/operations", one_file),
        directory_source(spark, f"{trace}/events", one_file),
        out=f"{trace}/stream",
        checkpoint=f"{trace}/checkpoint",
        watermark_ms=0,
        on_commit=mark,
    ).run(until_end=True)
    return marks


def run(spark: SparkSession, trace: Path, size: int, files: int) -> str:
    """Return the table of both."""
    begin = now()
    tables = f"{trace}/operations.parquet", f"{trace}/events.parquet"
    resolve_files(spark, *tables, f"{trace}/batch")
    marks = [begin, now(), *stream(spark, trace)]
    same_outcomes(trace / "batch", trace / "stream")
    batches = sorted(since(at, later) for at, later in pairwise(marks[3 : files + 3]))
    figures = {
        "resolve": (size, since(*marks[:2])),
        "stream": (size, since(marks[2], marks[-1])),
        "stream, a batch": (size // files, batches[len(batches) // 2]),
    }
    rows = [
        [name, f"{own.wall:.1f}", f"{own.cpu:.1f}", f"{count / own.wall:,.0f}"]
        for name, (count, own) in figures.items()
    ]
    title = f"{size:,} operations, {2 * size:,} events, {files} batches"
    return table(title, ["", "seconds", "CPU seconds", "operations a second"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=10)
    parser.add_argument("--memory", default=MEMORY, help="of Spark's Java process")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
        trace = Path(name)
        make_trace(trace, arguments.size, longest_ms=LONGEST_MS, last_ms=DAY_MS)
        cut(trace, arguments.files)
        print(machine())
        with open_session(memory=arguments.memory) as spark:
            print(run(spark, trace, arguments.size, arguments.files))


if __name__ == "__main__":
    main()
