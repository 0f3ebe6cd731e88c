"""Measures `purgatory spark report` on a generated journal, by default of 10 million outcomes.

    python benchmarks/bench_spark_report.py [--rows N] [--cores N] [--memory 2g]

Prints wall and CPU seconds of each step and of the whole, and for comparison those of a plain count
by kind that reads the same columns once. One run: Spark's work is spread over threads of another
process, and its first steps include the warm-up.
"""

import argparse
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench_spark import cpu_seconds
from harness import machine, table
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from purgatory.spark.report.report import make_report
from purgatory.spark.session import local_session
from purgatory.spark.tables.journal_tables import count_rejected, read_journal

BEGIN_MS = 1_700_000_000_000
KINDS = ("payment", "parcel", "reply", "lease", "heartbeat")
TIMEOUTS_MS = (500, 5_000, 30_000, 60_000)
# Operations per millisecond: 10 million take a bit less than three hours.
RATE = 1.0
KEYS = 1_000_000


def one_of(values: tuple[object, ...], seed: int) -> Column:
    """Choose a value for each row, by its id."""
    place = F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(len(values)))
    return F.element_at(F.array(*map(F.lit, values)), place.cast("int") + 1)


def key(seed: int) -> Column:
    """Make a key for each row: a tenth of them the same."""
    hashed = F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(KEYS))
    return F.concat(F.lit("key:"), F.when(hashed < KEYS // 10, 0).otherwise(hashed))


def operations(spark: SparkSession, rows: int) -> DataFrame:
    """Make operations with one to three keys."""
    keys = F.slice(F.array(key(1), key(2), key(3)), 1, (F.pmod("id", F.lit(3)) + 1).cast("int"))
    return spark.range(rows).select(
        F.concat(F.lit("o"), "id").alias("op_id"),
        one_of(KINDS, 4).alias("kind"),
        (F.lit(BEGIN_MS) + (F.col("id") / RATE).cast("long")).alias("submitted_ms"),
        one_of(TIMEOUTS_MS, 5).cast("long").alias("timeout_ms"),
        keys.alias("keys"),
        F.lit(1).alias("need"),
    )


def outcomes(table_of_operations: DataFrame) -> DataFrame:
    """Make outcomes of operations: log-normal waits, cut off by the timeouts."""
    submitted, timeout = F.col("submitted_ms"), F.col("timeout_ms")
    takes = F.exp(F.randn(6) * 1.5 + 6).cast("long")
    with_wait = table_of_operations.withColumn("takes", takes)
    completed = F.col("takes") <= timeout
    waited = F.least("takes", timeout)
    return with_wait.select(
        "op_id",
        "kind",
        F.when(completed, "completed").otherwise("expired").alias("outcome"),
        (submitted + waited).alias("at_ms"),
        F.when(completed, F.element_at("keys", 1)).alias("by_key"),
        submitted,
        (submitted + timeout).alias("deadline_ms"),
        waited.alias("waited_ms"),
        F.when(completed, 0).otherwise(F.pmod("takes", F.lit(3))).cast("long").alias("lateness_ms"),
    )


def generate(spark: SparkSession, directory: Path, rows: int) -> None:
    """Write both tables of a journal."""
    operations(spark, rows).write.parquet(f"{directory}/operations")
    written = spark.read.parquet(f"{directory}/operations")
    outcomes(written).write.parquet(f"{directory}/outcomes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--cores", type=int, default=None)
    parser.add_argument("--memory", default="2g")
    options = parser.parse_args()
    spark = local_session(cores=options.cores, memory=options.memory)
    with tempfile.TemporaryDirectory() as directory:
        generate(spark, Path(directory), options.rows)
        print(machine())
        print(run(spark, directory, options.rows))
    spark.stop()


def run(spark: SparkSession, directory: str, rows: int) -> str:
    """Return the table of seconds."""
    marks: list[tuple[str, float, float]] = []

    def mark(step: str) -> None:
        marks.append((step, time.perf_counter(), cpu_seconds()))
        print(f"{step} ...", file=sys.stderr)

    mark("one pass: count by kind and outcome, checked rows")
    journal = read_journal(spark, directory)
    journal.outcomes.groupBy("kind", "outcome").agg(F.count("*"), F.avg("waited_ms")).collect()
    mark("bad rows")
    count_rejected(journal.rejected)
    begin = len(marks)
    make_report(journal.outcomes, journal.operations, progress=mark)
    mark("the report")
    steps = [*pairwise(marks), (("the report, in all", *marks[begin][1:]), marks[-1])]
    seconds = [
        [step, f"{later - at:.1f}", f"{more - used:.1f}"]
        for (step, at, used), (_, later, more) in steps
    ]
    return table(f"Report of {rows:,} outcomes", ["step", "seconds", "CPU seconds"], seconds)


if __name__ == "__main__":
    main()
