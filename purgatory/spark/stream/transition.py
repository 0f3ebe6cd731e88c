"""One step of event time: what becomes of the operations that wait, when some instants are over.

DataFrame to DataFrame, no session and no action; any thread may call.

Why a step needs no memory of what was found before: its events are all later than those of earlier
steps. So an operation that is not done goes on as one that needs fewer keys, of those that are
left, and the n-th distinct key is found by whichever step it falls into.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from purgatory.spark.stream.state import PENDING_OPERATIONS, RETAINED_EVENTS
from purgatory.spark.tables.schema import COMPLETED, EXPIRED

# By value, and not by a number given to each row: two branches of a plan that is computed again
# after a failure agree on values. Operations that are equal in these share their findings, of
# which each takes those of its own keys.
_IDENTITY: Final = ("op_id", "submitted_ms", "deadline_ms")


def pending_operations(operations: DataFrame) -> DataFrame:
    """Checked rows of operations as operations that wait."""
    deadline = F.col("submitted_ms") + F.col("timeout_ms")
    rows = operations.withColumns({"deadline_ms": deadline, "keys": F.array_distinct("keys")})
    return rows.select(*PENDING_OPERATIONS.names)


def closed_events(events: DataFrame) -> DataFrame:
    """Those of the events with a clock whose instant is over."""
    return events.where(F.col("at_ms") <= F.col("closed_ms")).select(*RETAINED_EVENTS.names)


def retained_events(events: DataFrame) -> DataFrame:
    """Those of the events with a clock that a later step needs."""
    return events.where(F.col("at_ms") > F.col("closed_ms")).select(*RETAINED_EVENTS.names)


def advance(operations: DataFrame, events: DataFrame) -> DataFrame:
    """Operations (`PENDING_OPERATIONS`) as they are when all instants to `closed_ms` are over.

    `operations` have a clock. `events` (`RETAINED_EVENTS`): those of the instants that this
    step closes. Adds the columns `outcome`, `at_ms` and `by_key`, all null for an operation that
    goes on waiting. Events of one instant count in the order of `file` and `place`.
    """
    found = F.expr("filter(coalesce(found, array()), one -> array_contains(keys, one.key))")
    last = F.when(F.col("need") <= F.size("found"), F.expr("element_at(found, need)"))
    is_over = F.col("deadline_ms") <= F.col("closed_ms")
    at_ms = F.coalesce(F.col("last.at_ms"), F.when(is_over, F.col("deadline_ms")))
    outcome = F.when(F.col("last").isNotNull(), COMPLETED).when(is_over, EXPIRED)
    return (
        operations.join(_found_keys(operations, events), [*_IDENTITY], "left")
        .withColumn("found", found)
        .withColumn("last", last)
        .select(
            *("op_id", "kind", "submitted_ms", "deadline_ms"),
            F.expr("array_except(keys, found.key)").alias("keys"),
            (F.col("need") - F.size("found")).alias("need"),
            outcome.alias("outcome"),
            at_ms.alias("at_ms"),
            F.col("last.key").alias("by_key"),
        )
    )


def outcomes(advanced: DataFrame) -> DataFrame:
    """The rows of the table of outcomes, of those operations that have one."""
    return advanced.where(F.col("outcome").isNotNull()).select(
        *("op_id", "kind", "outcome", "at_ms", "by_key", "submitted_ms", "deadline_ms"),
        (F.col("at_ms") - F.col("submitted_ms")).alias("waited_ms"),
        F.lit(0).cast("bigint").alias("lateness_ms"),
    )


def still_pending(advanced: DataFrame) -> DataFrame:
    """The operations that go on waiting."""
    return advanced.where(F.col("outcome").isNull()).select(*PENDING_OPERATIONS.names)


def _found_keys(operations: DataFrame, events: DataFrame) -> DataFrame:
    """For each operation with any, `found`: its keys with their first events in its window."""
    watches = operations.select(*_IDENTITY, F.explode("keys").alias("key"))
    first = F.struct("hit.*", "key")
    return (
        _first_events(watches, events)
        .groupBy(*_IDENTITY)
        .agg(F.sort_array(F.collect_set(first)).alias("found"))
    )


def _first_events(watches: DataFrame, events: DataFrame) -> DataFrame:
    """The watches whose key has an event in their window, with the first one as `hit`.

    Sorted by time, the first event from a submission on is the last one seen when looking from
    the end; one pass per key, however many watches and events it has.
    """
    hit = F.struct("at_ms", "file", "place")
    # An event of the instant of a submission comes after it: looking from the end, before it.
    rows = events.select("key", F.col("at_ms").alias("time"), hit.alias("hit")).unionByName(
        watches.select("*", F.col("submitted_ms").alias("time")), allowMissingColumns=True
    )
    return (
        rows.withColumn("hit", F.last("hit", ignorenulls=True).over(_backward_window()))
        .where(F.col("op_id").isNotNull() & (F.col("hit.at_ms") <= F.col("deadline_ms")))
        .select(*_IDENTITY, "key", "hit")
    )


def _backward_window() -> WindowSpec:
    by: list[Column] = [F.col("time").desc(), F.col("hit").desc_nulls_last()]
    window = Window.partitionBy("key").orderBy(*by)
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
