"""Finds the first event of each watch key of each operation.

Pure DataFrame transformations, for `resolve`. Any thread may call.

The rows of all operations and watch keys and the rows of all events are sorted together, by key and
time. A window over each key, read backwards, gives each operation's row the first event at or after
the submission. If events may be held, another one, read forwards, gives it the last completion
before the submission, which counts instead if it is still held.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from purgatory.spark.tables.schema import SEQUENCE

# When an event counts for the operation; null if it comes after the deadline, or there is none.
AT: Final = "_at_ms"
SEQ: Final = "_seq"
HAS_FAILED: Final = "_has_failed"
# When the event came, if it counts because it is held; null for other events.
HELD_SINCE: Final = "_held_since_ms"

# The time of a submission, or of an event.
_TIME: Final = "_time_ms"
# In the row of a completion: its time, the end of its hold, and the complement of its `SEQ`.
_HOLD: Final = "_hold"


def first_events(watches: DataFrame, events: DataFrame) -> DataFrame:
    """Add the columns `AT` and `SEQ` to watches, a row for each operation and watch key.

    If events have the column `hold_ms` or `failed`, add `HAS_FAILED` and `HELD_SINCE`, too.
    """
    rows = _event_rows(events)
    timed = watches.withColumn(_TIME, F.col("submitted_ms"))
    timeline = timed.unionByName(rows, allowMissingColumns=True)
    columns = [name for name in rows.columns if name in (AT, SEQ, HAS_FAILED)]
    found = [F.last(name, ignorenulls=True).over(_backwards()).alias(name) for name in columns]
    if _HOLD in rows.columns:
        found.append(F.max(_HOLD).over(_forwards()).alias(_HOLD))
    firsts = timeline.select(*watches.columns, *found).where(_is_operation())
    if _HOLD in rows.columns:
        firsts = _with_held_events(firsts)
    in_time = F.col(AT) <= F.col("deadline_ms")
    return firsts.withColumn(AT, F.when(in_time, F.col(AT)))


def _event_rows(events: DataFrame) -> DataFrame:
    """Make a row for each event."""
    # Never null, as `_backwards` is for the nearest value that is not null.
    seq = F.coalesce(SEQUENCE, F.lit(0)) if SEQUENCE in events.columns else F.lit(0)
    at = F.col("at_ms")
    columns = [F.col("key"), at.alias(_TIME), at.alias(AT), seq.cast("bigint").alias(SEQ)]
    if "hold_ms" in events.columns or "failed" in events.columns:
        columns += _optional_columns(events, seq.cast("bigint"))
    return events.select(*columns)


def _optional_columns(events: DataFrame, seq: Column) -> list[Column]:
    hold_ms = F.coalesce("hold_ms", F.lit(0)) if "hold_ms" in events.columns else F.lit(0)
    failed = F.coalesce("failed", F.lit(False)) if "failed" in events.columns else F.lit(False)
    # The complement, as `_forwards` is for the largest one: of one instant the longest hold, and
    # of equal ones the first.
    hold = F.struct(
        "at_ms", (F.col("at_ms") + hold_ms).alias("until_ms"), F.bitwise_not(seq).alias("order")
    )
    return [failed.alias(HAS_FAILED), F.when(~failed, hold).alias(_HOLD)]


def _with_held_events(firsts: DataFrame) -> DataFrame:
    """Let the completion in `_HOLD` count at the submission, if it is held until then."""
    hold, submitted = F.col(_HOLD), F.col("submitted_ms")
    is_held = hold["until_ms"] >= submitted
    held = {
        AT: F.when(is_held, submitted).otherwise(F.col(AT)),
        SEQ: F.when(is_held, F.bitwise_not(hold["order"])).otherwise(F.col(SEQ)),
        HAS_FAILED: F.col(HAS_FAILED) & ~F.coalesce(is_held, F.lit(False)),
        HELD_SINCE: F.when(is_held, hold["at_ms"]),
    }
    return firsts.withColumns(held).drop(_HOLD)


def _is_operation() -> Column:
    return F.col("op_id").isNotNull()


def _backwards() -> WindowSpec:
    # Backwards, because Spark computes only a frame of all rows so far in one pass. At one instant
    # events come before operations, and the first of the events comes last.
    return _so_far(F.desc(_TIME), _is_operation(), F.desc(SEQ))


def _forwards() -> WindowSpec:
    # At one instant operations come first: what comes then is no earlier event.
    return _so_far(F.asc(_TIME), F.desc(_is_operation()))


def _so_far(*order: Column) -> WindowSpec:
    window = Window.partitionBy("key").orderBy(*order)
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
