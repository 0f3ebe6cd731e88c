"""Deadlines of operations whose timeouts were extended.

An extension applies if it comes at or before the deadline in force. That does not depend on events,
so it is found first, by a fold over the extensions of each operation in order of time; what an
operation that ended earlier was given later is then left out. Pure DataFrame transformations, for
`resolve`. Any thread may call.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from purgatory.spark.tables.schema import SEQUENCE

# The deadline by the timeout of the submission, and the extensions since then.
EXTENDED: Final = ("_first_deadline_ms", "_extensions")


def with_extensions(operations: DataFrame, extensions: DataFrame) -> DataFrame:
    """Add the columns `EXTENDED` to operations, and set `deadline_ms` to the last deadline."""
    first, given = map(F.col, EXTENDED)
    since = F.filter(
        F.coalesce(given, F.array()), lambda one: one["at_ms"] >= F.col("submitted_ms")
    )
    rows = operations.withColumnRenamed("deadline_ms", EXTENDED[0])
    rows = rows.join(_by_operation(extensions), "op_id", "left").withColumn(EXTENDED[1], since)
    return rows.withColumn("deadline_ms", _last_deadline(first, given))


def deadline_at(time_ms: Column) -> Column:
    """Return the deadline in force when an operation ends."""
    first, given = map(F.col, EXTENDED)
    return _last_deadline(first, F.filter(given, lambda one: one["at_ms"] <= time_ms))


def _by_operation(extensions: DataFrame) -> DataFrame:
    """Collect the extensions of each operation, in the order in which they apply."""
    seq = F.coalesce(SEQUENCE, F.lit(0)) if SEQUENCE in extensions.columns else F.lit(0)
    deadline = F.col("at_ms") + F.col("timeout_ms")
    one = F.struct("at_ms", seq.alias("seq"), deadline.alias("deadline_ms"))
    return extensions.groupBy("op_id").agg(F.sort_array(F.collect_list(one)).alias(EXTENDED[1]))


def _last_deadline(first: Column, extensions: Column) -> Column:
    # Of several at one instant each applies, and the last one wins: none ends before its instant.
    return F.aggregate(
        extensions,
        first,
        lambda last, one: F.when(one["at_ms"] <= last, one["deadline_ms"]).otherwise(last),
    )
