"""The batch job: files in, files out. One thread; the session belongs to the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import AnalysisException

from purgatory.spark.batch.resolve import resolve
from purgatory.spark.errors import OutputExists, RejectedRows, wrapping_spark_errors
from purgatory.spark.tables.reader import read_events, read_operations
from purgatory.spark.tables.schema import COMPLETED, EXPIRED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REJECTED_DIRECTORY: Final = "rejected"  # below the directory of the outcomes

_MAX_SHOWN_ROWS: Final = 5  # so many rejected rows are described


class ResolveSummary(NamedTuple):
    """How many operations there were, and what became of them; and how many rows were not taken."""

    completed: int
    expired: int
    rejected: int

    @property
    def operations(self) -> int:
        """All that have an outcome."""
        return self.completed + self.expired


def resolve_files(
    spark: SparkSession, operations: str, events: str, out: str, *, strict: bool = False
) -> ResolveSummary:
    """Read both tables, write the outcomes to the directory `out` as Parquet, and count them.

    Rejected rows are written to `out`/rejected, if there are any; with `strict` they raise
    `RejectedRows` instead, and nothing is written. `OutputExists` when `out` holds files,
    `TableError` for what cannot be read, `SparkError` for what fails later on. All rows are looked
    at before the work starts.
    """
    check_output_is_empty(spark, out)
    ours, theirs = read_operations(spark, operations), read_events(spark, events)
    rejected = ours.rejected.union(theirs.rejected)
    with wrapping_spark_errors("reading the tables"):
        count = (
            _raise_if_rejected(rejected)
            if strict
            else _write_rejected(rejected, f"{out}/{REJECTED_DIRECTORY}")
        )
    with wrapping_spark_errors(f"resolving into {out}"):
        resolve(ours.good, theirs.good).write.mode("append").parquet(out)
        counts: dict[str, int] = dict(spark.read.parquet(out).groupBy("outcome").count().collect())
    return ResolveSummary(counts.get(COMPLETED, 0), counts.get(EXPIRED, 0), count)


def check_output_is_empty(spark: SparkSession, out: str) -> None:
    """`OutputExists` when there are files under a path."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        found = files.load(out).inputFiles()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return
    if found:
        raise OutputExists(f"{out}: holds {len(found)} files; expected a new or empty directory")


def _raise_if_rejected(rejected: DataFrame) -> int:
    rows = rejected.limit(_MAX_SHOWN_ROWS + 1).collect()
    if rows:
        shown = "; ".join(f"{row.file}, {row.reason}" for row in rows[:_MAX_SHOWN_ROWS])
        more = "; there are more" if len(rows) > _MAX_SHOWN_ROWS else ""
        raise RejectedRows(f"{shown}{more}")
    return 0


def _write_rejected(rejected: DataFrame, path: str) -> int:
    count = rejected.count()
    if count:
        rejected.write.mode("append").parquet(path)
    return count
