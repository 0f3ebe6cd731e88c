"""The batch job: reads and resolves a trace, and writes the outcomes.

Call from one thread at a time; the session belongs to the caller.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from purgatory.spark.batch.resolve import resolve
from purgatory.spark.errors import OutputExists, wrapping_spark_errors
from purgatory.spark.filesystem import LITERAL_PATHS, file_system_for
from purgatory.spark.tables.journal_tables import count_rejected
from purgatory.spark.tables.reader import read_table
from purgatory.spark.tables.row_checks import (
    EVENTS_TABLE,
    EXTENSIONS_TABLE,
    IS_GOOD,
    OPERATIONS_TABLE,
    CheckedTable,
)
from purgatory.trace.validation import COMPLETED, EXPIRED, FAILED

REJECTED_DIRECTORY: Final = "_rejected"  # beside the outcomes; readers skip such names

# Spark's drafts, left over from a job that was killed. The next job removes them.
_DRAFTS: Final = "_temporary"
_BAD_ROWS: Final = "bad_rows"

_MAX_SHOWN_NAMES: Final = 5  # in an error message


class ResolveSummary(NamedTuple):
    """The numbers of operations by outcome, and of rejected rows."""

    completed: int
    expired: int
    rejected: int
    failed: int

    @property
    def operations(self) -> int:
        """The number of operations."""
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
    """Read and resolve the tables; write and count the outcomes.

    Writes outcomes to the directory `out` as Parquet, and rejected rows, if any, to
    `out`/_rejected; with `strict`, raises `RejectedRows` instead, and writes nothing. Raises
    `OutputExists` if `out` is not a new or empty directory, `TableError` for an unreadable table,
    `SparkError` for another failure.
    """
    check_output_is_empty(spark, out)
    tables = [
        read_table(spark, operations, OPERATIONS_TABLE),
        read_table(spark, events, EVENTS_TABLE),
    ]
    if extensions is not None:
        tables.append(read_table(spark, extensions, EXTENSIONS_TABLE))
    rejected = reduce(DataFrame.union, (table.rejected for table in tables))
    if strict:
        with wrapping_spark_errors("reading the tables"):
            count_rejected(rejected, strict=True)
    with wrapping_spark_errors(f"resolving into {out}"):
        counts, has_bad_rows = _resolve_good_rows(spark, tables, out)
    count = 0
    if has_bad_rows:
        with wrapping_spark_errors("reading the tables"):
            count = _write_rejected(rejected, f"{out}/{REJECTED_DIRECTORY}")
    completed, expired, failed = (counts.get(name, 0) for name in (COMPLETED, EXPIRED, FAILED))
    return ResolveSummary(completed, expired, count, failed)


def _resolve_good_rows(
    spark: SparkSession, tables: Sequence[CheckedTable], out: str
) -> tuple[dict[str, int], bool]:
    """Write the outcomes; return their numbers, and whether rows are bad.

    An `Observation` counts the bad rows, so that rows are read and checked once.
    """
    found = [Observation() for _ in tables]
    bad = F.count_if(~F.col(IS_GOOD)).alias(_BAD_ROWS)
    good = [
        table._replace(marked=table.marked.observe(one, bad)).good
        for table, one in zip(tables, found, strict=True)
    ]
    resolve(*good).write.mode("append").parquet(out)
    counts: dict[str, int] = dict(
        spark.read.options(**LITERAL_PATHS).parquet(out).groupBy("outcome").count().collect()
    )
    return counts, any(one.get[_BAD_ROWS] for one in found)


def check_output_is_empty(spark: SparkSession, out: str) -> None:
    """Raise `OutputExists` if there is anything at a path but an empty directory.

    Hidden names count: Spark passes over them, and the directory would hold rows of two runs.
    """
    file_system, place = file_system_for(spark, out)
    if not file_system.exists(place):
        return
    if file_system.size(place) is not None:
        raise OutputExists(f"{out}: is a file; expected a new or empty directory")
    names = [name for name in file_system.names(place) if name != _DRAFTS]
    if names:
        shown = ", ".join(names[:_MAX_SHOWN_NAMES])
        more = ", ..." if len(names) > _MAX_SHOWN_NAMES else ""
        raise OutputExists(f"{out}: holds {shown}{more}; expected a new or empty directory")


def _write_rejected(rejected: DataFrame, path: str) -> int:
    rejected.write.mode("append").parquet(path)
    return rejected.count()
