"""Finds the first event of each watch key of each operation.

Watch keys and events are sorted together, by key and time. A window over each key, read backwards,
gives each operation's row the first event at or after the submission. If events may be held,
another window, read forwards, gives the last completion before the submission, which counts instead
if still held.

Most of the work is the sort. Spark compares the first 8 bytes of the first column first, and keys
often share these; so the hash of the key leads. The fields of an operation are one column, so rows
of events are half as long.

Pure; any thread may call.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from purgatory.spark.tables.schema import SEQUENCE

# When an event counts for the operation; null if not in time.
AT: Final = "_at_ms"
SEQ: Final = "_seq"
HAS_FAILED: Final = "_has_failed"
# When a held event came, if it counts; null for other events.
HELD_SINCE: Final = "_held_since_ms"

# The time of a submission, or of an event.
_TIME: Final = "_time_ms"
_HASH: Final = "_hash"
# In the row of an operation: its columns.
_OPERATION: Final = "_operation"
# Of a completion: time, end of hold, and complement of `SEQ`.
_HOLD: Final = "_hold"


def first_events(watches: DataFrame, events: DataFrame) -> DataFrame:
    """Add the columns `AT` and `SEQ` to watches, a row for each operation and watch key.

    If events have `hold_ms` or `failed`, add `HAS_FAILED` and `HELD_SINCE`, too.
    """
    rows = _event_rows(events)
    timeline = _operation_rows(watches).unionByName(rows, allowMissingColumns=True)
    at = F.when(F.col(SEQ).isNotNull(), F.col(_TIME))  # null in the rows of operations
    # Backwards, because Spark computes only a frame of all rows so far in one pass. At one instant
    # events come before operations, the first event last.
    backwards = _so_far(F.desc(_TIME), F.desc_nulls_last(SEQ))
    found = [
        F.last(value, ignorenulls=True).over(backwards).alias(name)
        for name, value in {AT: at, SEQ: F.col(SEQ), HAS_FAILED: F.col(HAS_FAILED)}.items()
        if name in (AT, *rows.columns)
    ]
    if _HOLD in rows.columns:
        # Operations see earlier events only, so operations come first at one instant.
        forwards = _so_far(F.asc(_TIME), F.asc_nulls_first(SEQ))
        found.append(F.max(_HOLD).over(forwards).alias(_HOLD))
    firsts = timeline.select("key", _OPERATION, *found).where(F.col(_OPERATION).isNotNull())
    firsts = firsts.select("*", f"{_OPERATION}.*").drop(_OPERATION)
    if _HOLD in rows.columns:
        firsts = _with_held_events(firsts)
    in_time = F.col(AT) <= F.col("deadline_ms")
    return firsts.withColumn(AT, F.when(in_time, F.col(AT)))


def _operation_rows(watches: DataFrame) -> DataFrame:
    columns = F.struct(*(name for name in watches.columns if name != "key"))
    time = F.col("submitted_ms").alias(_TIME)
    return watches.select("key", _hash_of_key(), time, columns.alias(_OPERATION))


def _event_rows(events: DataFrame) -> DataFrame:
    # Never null, which distinguishes rows of events from those of operations.
    seq = F.coalesce(SEQUENCE, F.lit(0)) if SEQUENCE in events.columns else F.lit(0)
    time = F.col("at_ms").alias(_TIME)
    columns = [F.col("key"), _hash_of_key(), time, seq.cast("bigint").alias(SEQ)]
    if "hold_ms" in events.columns or "failed" in events.columns:
        columns += _optional_columns(events, seq.cast("bigint"))
    return events.select(*columns)


def _optional_columns(events: DataFrame, seq: Column) -> list[Column]:
    hold_ms = F.coalesce("hold_ms", F.lit(0)) if "hold_ms" in events.columns else F.lit(0)
    failed = F.coalesce("failed", F.lit(False)) if "failed" in events.columns else F.lit(False)
    # The complement, because the largest counts: the longest hold of an instant, then the first.
    hold = F.struct(
        "at_ms", (F.col("at_ms") + hold_ms).alias("until_ms"), F.bitwise_not(seq).alias("order")
    )
    return [failed.alias(HAS_FAILED), F.when(~failed, hold).alias(_HOLD)]


def _with_held_events(firsts: DataFrame) -> DataFrame:
    """Let a completion count at the submission, if held until then."""
    hold, submitted = F.col(_HOLD), F.col("submitted_ms")
    is_held = hold["until_ms"] >= submitted
    held = {
        AT: F.when(is_held, submitted).otherwise(F.col(AT)),
        SEQ: F.when(is_held, F.bitwise_not(hold["order"])).otherwise(F.col(SEQ)),
        HAS_FAILED: F.col(HAS_FAILED) & ~F.coalesce(is_held, F.lit(False)),
        HELD_SINCE: F.when(is_held, hold["at_ms"]),
    }
    return firsts.withColumns(held).drop(_HOLD)


def _hash_of_key() -> Column:
    return F.xxhash64("key").alias(_HASH)


def _so_far(*order: Column) -> WindowSpec:
    window = Window.partitionBy(_HASH, "key").orderBy(*order)
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
