"""The batch job: reads and resolves a trace, and writes the outcomes.

Call from one thread at a time; the session belongs to the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import AnalysisException

from purgatory.spark.batch.resolve import resolve
from purgatory.spark.errors import OutputExists, RejectedRows, wrapping_spark_errors
from purgatory.spark.tables.reader import read_events, read_extensions, read_operations
from purgatory.spark.tables.schema import COMPLETED, EXPIRED, FAILED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REJECTED_DIRECTORY: Final = "_rejected"  # beside the outcomes; readers skip such names

_MAX_SHOWN_ROWS: Final = 5  # in an error message


class ResolveSummary(NamedTuple):
    """The number of operations by outcome, and the number of rejected rows."""

    completed: int
    expired: int
    rejected: int
    failed: int = 0

    @property
    def operations(self) -> int:
        """The number of operations, each of which has an outcome."""
        return self.completed + self.failed + self.expired


def resolve_files(
    spark: SparkSession,
    operations: str,
    events: str,
    out: str,
    *,
    extensions: str | None = None,
    strict: bool = False,
) -> ResolveSummary:
    """Read the tables, resolve them, and count the outcomes.

    Writes the outcomes to the directory `out` as Parquet. Writes rejected rows to `out`/_rejected,
    if there are any; with `strict`, raises `RejectedRows` instead, and writes nothing. Raises
    `OutputExists` if `out` holds files, `TableError` for a table that cannot be read, `SparkError`
    for a later failure. All rows are checked before the resolving starts.
    """
    check_output_is_empty(spark, out)
    checked_operations = read_operations(spark, operations)
    checked_events = read_events(spark, events)
    rejected = checked_operations.rejected.union(checked_events.rejected)
    good_extensions = None
    if extensions is not None:
        checked_extensions = read_extensions(spark, extensions)
        good_extensions = checked_extensions.good
        rejected = rejected.union(checked_extensions.rejected)
    with wrapping_spark_errors("reading the tables"):
        count = (
            _raise_if_rejected(rejected)
            if strict
            else _write_rejected(rejected, f"{out}/{REJECTED_DIRECTORY}")
        )
    with wrapping_spark_errors(f"resolving into {out}"):
        outcomes = resolve(checked_operations.good, checked_events.good, good_extensions)
        outcomes.write.mode("append").parquet(out)
        counts: dict[str, int] = dict(spark.read.parquet(out).groupBy("outcome").count().collect())
    completed, expired, failed = (counts.get(name, 0) for name in (COMPLETED, EXPIRED, FAILED))
    return ResolveSummary(completed, expired, count, failed)


def check_output_is_empty(spark: SparkSession, out: str) -> None:
    """Raise `OutputExists` if there are files below a path."""
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
