"""Resolves operations, events and extensions to outcomes, in one batch.

The outcomes equal those of a replay, to the millisecond. Pure: no session, no action, no UDF. Any
thread may call.

Deadlines come first, as they do not depend on events. An extension applies if it comes at or before
the deadline in force, so deadlines are a fold over the extensions of each operation. Then
`first_events` finds the first event of each operation and key, by one sort; a join on a hot key
would produce every pair. A window over each operation orders those events; the event at place
`need` decides, if in time, or an earlier one that has failed.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from purgatory.spark.batch.first_events import AT, HAS_FAILED, HELD_SINCE, SEQ, first_events
from purgatory.spark.tables.schema import OPERATIONS, OUTCOMES, SEQUENCE
from purgatory.trace.validation import COMPLETED, EXPIRED, FAILED

# The place of an event among the first events of an operation, counted from 1.
_PLACE: Final = "_place"


def resolve(
    operations: DataFrame, events: DataFrame, extensions: DataFrame | None = None
) -> DataFrame:
    """Resolve each operation; return outcomes as `schema.OUTCOMES`, in no order.

    Takes good rows of `check_operations`, `check_events` and `check_extensions` of `row_checks`.
    Each row of operations has an outcome; `op_id` need not be distinct. At one instant submissions
    come first, then extensions, then events, then expirations. Events and extensions of one instant
    count in the order of the column `seq` (int64), if present (`tables.reader` adds the order of
    the file); else, and among equals, events in the order of their keys, and of extensions the
    longest. `lateness_ms` is 0.

    Events without the columns `hold_ms` and `failed` take less work.
    """
    watches = _watch_rows(operations)
    if extensions is not None:
        watches = _with_extensions(watches, extensions)
    # A row for each operation and distinct watch key. `explode` would check that a key exists, and
    # compute the distinct keys twice more.
    watches = watches.withColumn("key", F.explode_outer("key"))
    deciding = _deciding_rows(first_events(watches, events))
    return deciding.select(*_outcome_columns(deciding, extended=extensions is not None))


def _watch_rows(operations: DataFrame) -> DataFrame:
    # `array_distinct` makes a hash set, which most operations do not need.
    keys = F.when(F.size("keys") == 1, F.col("keys")).otherwise(F.array_distinct("keys"))
    return operations.select(
        "op_id",
        "kind",
        "submitted_ms",
        (F.col("submitted_ms") + F.col("timeout_ms")).alias("deadline_ms"),
        "need",
        # With op_id, the identity of a row; equal rows have the same outcome. A number for each row
        # would change when Spark repeats a task.
        F.xxhash64(*OPERATIONS.names).alias("_digest"),
        keys.alias("key"),
    )


def _deciding_rows(firsts: DataFrame) -> DataFrame:
    """Return the deciding row of each operation: at place `need`, or of a failure before.

    Each operation has at least `need` rows. Equal operations share the places, so all are kept.
    """
    # The digest first: see `first_events`.
    operation = Window.partitionBy("_digest", "op_id")
    # Held events count at the submission, in order of arrival, before other events.
    held = [F.asc_nulls_last(HELD_SINCE)] if HELD_SINCE in firsts.columns else []
    place = F.dense_rank().over(operation.orderBy(F.asc_nulls_last(AT), *held, SEQ, "key"))
    rows = firsts.withColumn(_PLACE, place)
    deciding = F.col("need")
    if HAS_FAILED in firsts.columns:
        of_failure = F.when(F.col(AT).isNotNull() & F.col(HAS_FAILED), F.col(_PLACE))
        rows = rows.withColumn("_first_failure", F.min(of_failure).over(operation))
        deciding = F.least("need", "_first_failure")
    return rows.where(F.col(_PLACE) == deciding)


def _outcome_columns(deciding: DataFrame, *, extended: bool) -> list[Column]:
    ended = F.col(AT).isNotNull()
    has_failed = F.col(HAS_FAILED) if HAS_FAILED in deciding.columns else F.lit(False)
    at_ms = F.coalesce(F.col(AT), F.col("deadline_ms"))
    columns = {
        "outcome": F.when(ended & has_failed, FAILED).when(ended, COMPLETED).otherwise(EXPIRED),
        "at_ms": at_ms,
        "by_key": F.when(ended & ~has_failed, F.col("key")),
        "deadline_ms": _deadline_at(at_ms) if extended else F.col("deadline_ms"),
        "waited_ms": at_ms - F.col("submitted_ms"),
        "lateness_ms": F.lit(0).cast("bigint"),
    }
    return [columns.get(name, F.col(name)).alias(name) for name in OUTCOMES.names]


# The first deadline, and the extensions since the submission.
_EXTENDED: Final = ("_first_deadline_ms", "_extensions")


def _with_extensions(operations: DataFrame, extensions: DataFrame) -> DataFrame:
    first, given = map(F.col, _EXTENDED)
    since = F.filter(
        F.coalesce(given, F.array()), lambda one: one["at_ms"] >= F.col("submitted_ms")
    )
    rows = operations.withColumnRenamed("deadline_ms", _EXTENDED[0])
    rows = rows.join(_by_operation(extensions), "op_id", "left").withColumn(_EXTENDED[1], since)
    return rows.withColumn("deadline_ms", _last_deadline(first, given))


def _deadline_at(time_ms: Column) -> Column:
    first, given = map(F.col, _EXTENDED)
    return _last_deadline(first, F.filter(given, lambda one: one["at_ms"] <= time_ms))


def _by_operation(extensions: DataFrame) -> DataFrame:
    seq = F.coalesce(SEQUENCE, F.lit(0)) if SEQUENCE in extensions.columns else F.lit(0)
    deadline = F.col("at_ms") + F.col("timeout_ms")
    one = F.struct("at_ms", seq.alias("seq"), deadline.alias("deadline_ms"))
    return extensions.groupBy("op_id").agg(F.sort_array(F.collect_list(one)).alias(_EXTENDED[1]))


def _last_deadline(first: Column, extensions: Column) -> Column:
    # At one instant each applies, and the last wins: none ends before its instant.
    return F.aggregate(
        extensions,
        first,
        lambda last, one: F.when(one["at_ms"] <= last, one["deadline_ms"]).otherwise(last),
    )
