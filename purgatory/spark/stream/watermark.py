"""The watermark: which instants are closed, and which rows are late.

Event time is closed up to `closed_ms`: the smaller of the newest times of both sources, less the
watermark, less one millisecond. A row is late if its instant was closed before its micro-batch
began. Pure functions; any thread may call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from purgatory.spark.tables.local_table import local_table
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CLOSED_MS: Final = StructType([StructField("closed_ms", LongType())])


def with_closed_ms(rows: DataFrame, closed_ms: int) -> DataFrame:
    """Add `closed_ms`, the last closed instant, to each row as a column.

    As data and not as a constant: a constant becomes part of the code that Spark generates, and
    compiling that again for each micro-batch takes longer than a small micro-batch itself.
    """
    closed = local_table(rows.sparkSession, _CLOSED_MS, [(closed_ms,)])
    return rows.crossJoin(F.broadcast(closed))


def is_late() -> Column:
    """Tell whether a row's `time_ms` is closed by its column `closed_ms`."""
    return F.col("time_ms") <= F.col("closed_ms")


def newest_times(before: Mapping[str, int], seen: Mapping[str, int | None]) -> dict[str, int]:
    """Return the newest time of each source, after a micro-batch.

    `seen`: the newest times in the micro-batch, None without a row in time. A late row never
    advances a source.
    """
    newest = dict(before)
    for source, time_ms in seen.items():
        if time_ms is not None:
            newest[source] = max(time_ms, newest.get(source, INT64_MIN))
    return newest


def compute_closed_ms(
    newest_ms: Mapping[str, int], sources: Collection[str], watermark_ms: int
) -> int:
    """Return the last closed instant.

    INT64_MIN, which is no instant, while a source has shown no row at all.
    """
    if len(newest_ms) < len(sources):
        return INT64_MIN
    return max(INT64_MIN, min(newest_ms.values()) - watermark_ms - 1)
