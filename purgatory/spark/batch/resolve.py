"""Resolves operations and events to outcomes, in one batch.

The outcomes equal those of a replay, to the millisecond. Pure DataFrame transformations of built-in
functions: no session, no action, no UDF. Any thread may call.

How it works: the rows of all operations and watch keys and the rows of all events are sorted
together, by key and time. A window over each key, read backwards, gives each operation's row the
first event at or after the submission. That is one sort, however often a key occurs, where a join
of operations and events on a hot key would produce every pair. A second window, over each
operation, orders those first events; the event at place `need` decides, if it is in time.

Operations need no distinct `op_id`: each row has an outcome of its own.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.tables.schema import COMPLETED, EXPIRED, OPERATIONS, OUTCOMES, SEQUENCE

# The columns of an operation; null in the row of an event.
_OPERATION: Final = ("op_id", "kind", "submitted_ms", "deadline_ms", "need", "_digest")
# The time of a submission, or of an event.
_TIME: Final = "_time_ms"
# In the row of an event, that event; later, the first event that counts for an operation's row.
_AT: Final = "_at_ms"
_SEQ: Final = "_seq"


def resolve(operations: DataFrame, events: DataFrame) -> DataFrame:
    """Resolve each operation; return outcomes as `schema.OUTCOMES`, in no order.

    Takes rows that `row_checks.check_operations` and `row_checks.check_events` found good. At one
    instant submissions come first, then events, then expirations. Events of one instant count in
    the order of the column `seq` (int64), where the events have one (`tables.reader` gives them the
    order of the file); else, and among equals, in the order of their keys. Only `by_key` depends on
    that. `lateness_ms` is 0.
    """
    firsts = _first_events(_watch_rows(operations).unionByName(_event_rows(events), True))
    return _deciding_rows(firsts).select(*_outcome_columns())


def _watch_rows(operations: DataFrame) -> DataFrame:
    """Make a row for each operation and distinct watch key."""
    return operations.select(
        "op_id",
        "kind",
        "submitted_ms",
        (F.col("submitted_ms") + F.col("timeout_ms")).alias("deadline_ms"),
        "need",
        # With op_id, the identity of a row. Rows that are equal in all columns have the same
        # outcome, so they need not be distinguished. A number for each row would not do: it
        # changes when Spark repeats a task after a failure.
        F.xxhash64(*OPERATIONS.names).alias("_digest"),
        F.col("submitted_ms").alias(_TIME),
        F.explode(F.array_distinct("keys")).alias("key"),
    )


def _event_rows(events: DataFrame) -> DataFrame:
    """Make a row for each event, with columns of `_watch_rows`."""
    # Never null, as `_first_events` looks for the nearest value that is not null.
    seq = F.coalesce(SEQUENCE, F.lit(0)) if SEQUENCE in events.columns else F.lit(0)
    at = F.col("at_ms")
    return events.select("key", at.alias(_TIME), at.alias(_AT), seq.cast("bigint").alias(_SEQ))


def _first_events(timeline: DataFrame) -> DataFrame:
    """Add the first event in time, or null, to each operation's row."""
    is_operation = F.col("op_id").isNotNull()
    # Backwards, because Spark computes only a frame of all rows so far in one pass. At one instant
    # events come before operations, and the first of the events comes last.
    backwards = (
        Window.partitionBy("key")
        .orderBy(F.desc(_TIME), is_operation, F.desc(_SEQ))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    nearest = timeline.select(
        *_OPERATION,
        "key",
        F.last(_AT, ignorenulls=True).over(backwards).alias(_AT),
        F.last(_SEQ, ignorenulls=True).over(backwards).alias(_SEQ),
    ).where(is_operation)
    in_time = F.col(_AT) <= F.col("deadline_ms")
    return nearest.withColumn(_AT, F.when(in_time, F.col(_AT)))


def _deciding_rows(firsts: DataFrame) -> DataFrame:
    """Return the deciding row of each operation: the one at place `need`.

    There always is one, as an operation has at least `need` rows; if it has no event, the operation
    expired. Operations that are equal in all columns share the places, so all of them are kept.
    """
    place = F.dense_rank().over(
        Window.partitionBy("op_id", "_digest").orderBy(F.asc_nulls_last(_AT), _SEQ, "key")
    )
    return firsts.withColumn("_place", place).where(F.col("_place") == F.col("need"))


def _outcome_columns() -> list[Column]:
    completed = F.col(_AT).isNotNull()
    at_ms = F.coalesce(F.col(_AT), F.col("deadline_ms"))
    columns = {
        "outcome": F.when(completed, COMPLETED).otherwise(EXPIRED),
        "at_ms": at_ms,
        "by_key": F.when(completed, F.col("key")),
        "waited_ms": at_ms - F.col("submitted_ms"),
        "lateness_ms": F.lit(0).cast("bigint"),
    }
    return [columns.get(name, F.col(name)).alias(name) for name in OUTCOMES.names]
