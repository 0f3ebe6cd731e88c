"""One transition of event time: pending operations become outcomes.

From DataFrame to DataFrame, without a session or an action; any thread may call.

A transition needs no record of the keys found before: its events are all later than those of
earlier transitions. So an operation that stays pending becomes one that needs fewer keys, of those
that are left, and the n-th distinct key is found by the transition that closes its instant.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from purgatory.spark.stream.state import PENDING_OPERATIONS, RETAINED_EVENTS
from purgatory.spark.tables.schema import COMPLETED, EXPIRED

# By value, and not by a number for each row: two branches of a plan agree on values even when Spark
# repeats one of them after a failure. Operations that are equal in these columns share the keys
# found for them; each takes those of its own keys.
_IDENTITY: Final = ("op_id", "submitted_ms", "deadline_ms")


def pending_operations(operations: DataFrame) -> DataFrame:
    """Make checked rows of operations pending operations."""
    deadline = F.col("submitted_ms") + F.col("timeout_ms")
    rows = operations.withColumns({"deadline_ms": deadline, "keys": F.array_distinct("keys")})
    return rows.select(*PENDING_OPERATIONS.names)


def closed_events(events: DataFrame) -> DataFrame:
    """Return the events of instants up to the column `closed_ms`."""
    return events.where(F.col("at_ms") <= F.col("closed_ms")).select(*RETAINED_EVENTS.names)


def retained_events(events: DataFrame) -> DataFrame:
    """Return the events of later instants, which a later transition needs."""
    return events.where(F.col("at_ms") > F.col("closed_ms")).select(*RETAINED_EVENTS.names)


def advance(operations: DataFrame, events: DataFrame) -> DataFrame:
    """Advance pending operations to when all instants up to `closed_ms` are closed.

    `operations`: `PENDING_OPERATIONS` with the column `closed_ms`. `events`: `RETAINED_EVENTS` of
    the instants that this transition closes. Adds the columns `outcome`, `at_ms` and `by_key`, all
    null for an operation that stays pending. Events of one instant count in the order of `file`
    and `place`.
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
    """Return the outcomes of the operations that have one, as `schema.OUTCOMES`."""
    return advanced.where(F.col("outcome").isNotNull()).select(
        *("op_id", "kind", "outcome", "at_ms", "by_key", "submitted_ms", "deadline_ms"),
        (F.col("at_ms") - F.col("submitted_ms")).alias("waited_ms"),
        F.lit(0).cast("bigint").alias("lateness_ms"),
    )


def still_pending(advanced: DataFrame) -> DataFrame:
    """Return the operations that stay pending."""
    return advanced.where(F.col("outcome").isNull()).select(*PENDING_OPERATIONS.names)


def _found_keys(operations: DataFrame, events: DataFrame) -> DataFrame:
    """Return `found` by operation: its keys with their first events."""
    watches = operations.select(*_IDENTITY, F.explode("keys").alias("key"))
    first = F.struct("hit.*", "key")
    return (
        _first_events(watches, events)
        .groupBy(*_IDENTITY)
        .agg(F.sort_array(F.collect_set(first)).alias("found"))
    )


def _first_events(watches: DataFrame, events: DataFrame) -> DataFrame:
    """Return watches with an event in time, the first one as `hit`.

    In a backward pass over a key, sorted by time, the first event at or after a submission is the
    last one seen; that is one pass per key, however many watches and events it has.
    """
    hit = F.struct("at_ms", "file", "place")
    # At one instant a submission comes before the events: in the backward pass, after them.
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
