"""Wheel tuning: what other timing wheels would have done with the same deadlines.

DataFrame arithmetic that follows the placement rules of `timingwheel`, without running it:

- A deadline is due at the next tick, rounded up.
- An operation goes to the lowest level that reaches that tick, counted in slots from the current
  one.
- In a level with slots of u ms, its bucket comes due at `due - due % u`. Then the bucket
  cascades: each operation that is still in it moves to a lower level, or is due.

So the buckets that an operation passes need no simulation. Below its first level it visits the
levels where the digit of `due`, written in base `wheel_size`, is not 0, and enters each when the
bucket of the next level up that holds `due` begins.

Assumptions: the timer is advanced at each submission, as the loop of a purgatory does; within one
millisecond completions come first, then due operations, then submissions; ticks are counted from
the Unix epoch, where a running timer counts them from the start of its clock.

Without a session of its own: any thread that may use the DataFrame may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from purgatory.spark.report.content import WheelRow

DEFAULT_TICKS_MS = (1, 10, 100, 1000)
DEFAULT_WHEEL_SIZES = (20, 64, 512)

# More than a thousand years. Longer waits count as this one, which keeps all products of widths and
# sizes within 64 bits.
MAX_WAIT_MS = 2**45
MAX_TICK_MS = 2**31
MAX_WHEEL_SIZE = 2**16
NEVER_MS = 2**63 - 1
MAX_CANDIDATES = 100

WHEEL_COLUMNS = ("tick_ms", "wheel_size")


@dataclass(frozen=True, slots=True)
class WheelSize:
    """Dimensions of a wheel: ms per tick and slots per level."""

    tick_ms: int
    wheel_size: int

    def __post_init__(self) -> None:
        _check_range("tick_ms", self.tick_ms, 1, MAX_TICK_MS)
        _check_range("wheel_size", self.wheel_size, 2, MAX_WHEEL_SIZE)

    def slot_widths(self, longest_ms: int) -> list[int]:
        """Return the ms per slot of each level, for waits up to `longest_ms`."""
        widths = [self.tick_ms]
        # Rounding up adds less than a tick, and the current slot began less than a slot ago.
        while widths[-1] * (self.wheel_size - 1) < longest_ms + self.tick_ms:
            widths.append(widths[-1] * self.wheel_size)
        return widths


def wheel_sizes(
    ticks_ms: Iterable[int] = DEFAULT_TICKS_MS, sizes: Iterable[int] = DEFAULT_WHEEL_SIZES
) -> list[WheelSize]:
    """Combine each tick with each size, in order. Raises ValueError."""
    all_sizes = sorted(set(sizes))
    return [WheelSize(tick_ms, size) for tick_ms in sorted(set(ticks_ms)) for size in all_sizes]


def check_candidates(candidates: Sequence[WheelSize]) -> None:
    """Raise ValueError for no candidates, and for too many at once."""
    if not 1 <= len(candidates) <= MAX_CANDIDATES:
        raise ValueError(f"{len(candidates)} wheels; expected 1 to {MAX_CANDIDATES}")


def compare_wheels(
    outcomes: DataFrame, candidates: Sequence[WheelSize], longest_ms: int
) -> list[WheelRow]:
    """Compute what each candidate's wheels would have done.

    A row for each, ordered by tick and size. `levels`: number of levels used. `buckets`:
    average number of occupied buckets from the
    first submission to the last outcome, each from the arrival of its first operation
    to the departure of its last. `cascades`: buckets with operations that were moved to a lower
    level; `moves_per_operation` counts each of these operations. `wakeups`: times at which buckets
    came due. `lateness_ms`, `max_lateness_ms`: what rounding up to the tick adds to an expiry, on
    average and at most.

    `longest_ms`: at least the longest timeout. Operations without a timeout never enter a wheel,
    yet count. Raises what `check_candidates` raises.
    """
    check_candidates(candidates)
    tasks = wheel_tasks(outcomes)
    visits = bucket_visits(tasks, candidates, min(longest_ms, MAX_WAIT_MS))
    wheels = _constants([(c.tick_ms, c.wheel_size) for c in candidates], WHEEL_COLUMNS)
    table = (
        _span(outcomes)
        .select("*", F.explode(wheels).alias("wheel"))
        .select("*", "wheel.*")
        .join(F.broadcast(wheel_totals(visits)), [*WHEEL_COLUMNS], "left")
        .join(F.broadcast(_lateness(tasks, candidates)), "tick_ms", "left")
        .na.fill(0)
    )
    rows = _rates(table).select(*WheelRow._fields).orderBy(*WHEEL_COLUMNS).collect()
    return [WheelRow(*row) for row in rows]


def wheel_tasks(outcomes: DataFrame) -> DataFrame:
    """Return `submitted_ms, deadline_ms, end_ms` of the operations that enter a wheel.

    `end_ms`: the time of completion or cancellation; an expired one stays until it is due.
    """
    submitted = F.col("submitted_ms")
    last = F.least("deadline_ms", submitted + F.lit(MAX_WAIT_MS))
    end = F.when(F.col("outcome") == "expired", F.lit(NEVER_MS)).otherwise(F.col("at_ms"))
    return outcomes.where(F.col("deadline_ms") > submitted).select(
        submitted, last.alias("deadline_ms"), end.alias("end_ms")
    )


def bucket_visits(tasks: DataFrame, candidates: Sequence[WheelSize], longest_ms: int) -> DataFrame:
    """Make a row for each bucket that a task visits, by candidate.

    Columns: those of `WheelSize`, `level`, `expiration_ms` of the bucket, `enter_ms` and
    `leave_ms` of the task, and `stayed`: whether it was still there when the bucket came due.
    """
    submitted, deadline, end = F.col("submitted_ms"), F.col("deadline_ms"), F.col("end_ms")
    due, slot, next_slot = F.col("due_ms"), F.col("slot_ms"), F.col("next_slot_ms")
    expiration, enter = _slot_start(due, slot), F.col("enter_ms")
    came_from = _slot_start(due, next_slot)  # when the bucket above, if there was one, came due
    reached = expiration - _slot_start(submitted, slot) < next_slot
    # Always true for level 0, which is its own lower level: a later due time is at least a tick
    # away.
    not_below = (
        _slot_start(due, F.col("below_ms")) - _slot_start(submitted, F.col("below_ms")) >= slot
    )
    return (
        tasks.select("*", F.explode(_levels(candidates, longest_ms)).alias("wheel"))
        .select(
            submitted,
            end,
            "wheel.*",
            _due_tick_ms(deadline, F.col("wheel.tick_ms")).alias("due_ms"),
        )
        .where((reached & not_below) | (~reached & (expiration != came_from)))
        .withColumn("enter_ms", F.when(reached, submitted).otherwise(came_from))
        .where(enter < end)
        .select(
            *WHEEL_COLUMNS,
            "level",
            expiration.alias("expiration_ms"),
            enter,
            F.least(end, expiration).alias("leave_ms"),
            (end > expiration).alias("stayed"),
        )
    )


def wheel_totals(visits: DataFrame) -> DataFrame:
    """Sum up visits by candidate: `levels, occupied_ms, cascades, moves, wakeups`."""
    stayed, above = F.col("stayed").cast("long"), F.col("level") > 0
    buckets = visits.groupBy(*WHEEL_COLUMNS, "level", "expiration_ms").agg(
        # As a float, because the sum over all buckets may exceed 64 bits.
        (F.max("leave_ms") - F.min("enter_ms")).cast("double").alias("occupied_ms"),
        F.sum(stayed).alias("stayed"),
    )
    # Buckets of several levels that come due at once wake the reaper only once.
    instants = buckets.groupBy(*WHEEL_COLUMNS, "expiration_ms").agg(
        F.max("level").alias("level"),
        F.sum("occupied_ms").alias("occupied_ms"),
        F.sum((above & (F.col("stayed") > 0)).cast("long")).alias("cascades"),
        F.sum(F.when(above, F.col("stayed")).otherwise(0)).alias("moves"),
        F.max((F.col("stayed") > 0).cast("long")).alias("wakeups"),
    )
    return instants.groupBy(*WHEEL_COLUMNS).agg(
        (F.max("level") + 1).alias("levels"),
        *(F.sum(name).alias(name) for name in ("occupied_ms", "cascades", "moves", "wakeups")),
    )


def _span(outcomes: DataFrame) -> DataFrame:
    last = F.max(F.greatest("at_ms", F.col("submitted_ms")))
    return outcomes.agg(
        F.count("*").alias("operations"), (last - F.min("submitted_ms")).alias("span_ms")
    )


def _lateness(tasks: DataFrame, candidates: Sequence[WheelSize]) -> DataFrame:
    ticks = _constants(sorted({(c.tick_ms,) for c in candidates}), ("tick_ms",))
    due = _due_tick_ms(F.col("deadline_ms"), F.col("tick_ms"))
    late = due - F.col("deadline_ms")
    return (
        tasks.select("*", F.explode(ticks).alias("tick"))
        .select("deadline_ms", "end_ms", "tick.tick_ms")
        .where(F.col("end_ms") > due)
        .groupBy("tick_ms")
        .agg(F.avg(late).alias("lateness_ms"), F.max(late).alias("max_lateness_ms"))
    )


def _rates(table: DataFrame) -> DataFrame:
    """Add the columns that are quotients; 0 if the divisor is 0."""
    quotients = {
        "buckets": F.col("occupied_ms") / _null_if_zero("span_ms"),
        "cascades_per_operation": F.col("cascades") / _null_if_zero("operations"),
        "moves_per_operation": F.col("moves") / _null_if_zero("operations"),
        "wakeups_per_second": F.col("wakeups") * 1000 / _null_if_zero("span_ms"),
    }
    return table.withColumns({k: F.coalesce(v, F.lit(0.0)) for k, v in quotients.items()})


def _null_if_zero(name: str) -> Column:
    return F.when(F.col(name) > 0, F.col(name))


def _levels(candidates: Sequence[WheelSize], longest_ms: int) -> Column:
    rows = []
    for wheel in candidates:
        widths = wheel.slot_widths(longest_ms)
        for level, width in enumerate(widths):
            below = widths[max(0, level - 1)]
            sizes = (wheel.tick_ms, wheel.wheel_size)
            rows.append((*sizes, level, below, width, width * wheel.wheel_size))
    return _constants(rows, (*WHEEL_COLUMNS, "level", "below_ms", "slot_ms", "next_slot_ms"))


def _constants(rows: Iterable[tuple[int, ...]], names: tuple[str, ...]) -> Column:
    """Return an array of structs of 64-bit integers, the same in every row."""
    return F.array(
        *(
            F.struct(*(F.lit(v).cast("long").alias(n) for v, n in zip(row, names, strict=True)))
            for row in rows
        )
    )


def _due_tick_ms(deadline: Column, tick: Column) -> Column:
    """Round a deadline up to the tick at which it is due."""
    return deadline + F.pmod(-deadline, tick)


def _slot_start(time: Column, width: Column) -> Column:
    """Return the start of the slot of `width` ms that contains `time`."""
    return time - F.pmod(time, width)


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; expected {least} to {most}")
