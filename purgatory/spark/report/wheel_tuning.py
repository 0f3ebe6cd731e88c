"""Wheel tuning: what other timing wheels would have done with the same deadlines; which to use.

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

`choose_wheel` takes, of the wheels that make an expiry late by at most a percent of the median
timeout, the one that wakes least, then the one that moves fewest operations. It must beat the
default clearly, and the default must have work to save; else the default stays.

Without a session of its own: any thread that may use the DataFrame may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import ceil
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from purgatory.spark.report.content import WheelRow
from purgatory.spark.report.formatting import duration, number, share
from timingwheel.lowlevel import DEFAULT_TICK_MS as TIMER_TICK_MS
from timingwheel.lowlevel import DEFAULT_WHEEL_SIZE

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


class WheelSize(NamedTuple):
    """Dimensions of a wheel: ms per tick and slots per level."""

    tick_ms: int
    wheel_size: int

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
    wheels = sorted(WheelSize(*pair) for pair in {*product(ticks_ms, sizes)})
    for wheel in wheels:
        _check_range("tick_ms", wheel.tick_ms, 1, MAX_TICK_MS)
        _check_range("wheel_size", wheel.wheel_size, 2, MAX_WHEEL_SIZE)
    return wheels


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
    tasks, span = wheel_tasks(outcomes), span_of(outcomes)
    visits = bucket_visits(tasks, candidates, min(longest_ms, MAX_WAIT_MS))
    totals = {row[:2]: WheelTotals(*row[2:]) for row in wheel_totals(visits).collect()}
    late = {tick_ms: rest for tick_ms, *rest in _lateness(tasks, candidates).collect()}
    return [
        wheel_row(wheel, totals.get(wheel, WheelTotals()), late.get(wheel.tick_ms, (0.0, 0)), span)
        for wheel in sorted(candidates)
    ]


class Span(NamedTuple):
    """The number of operations, and the time from the first submission to the last outcome."""

    operations: int
    span_ms: int


def span_of(outcomes: DataFrame) -> Span:
    """Count operations, and measure the time that they take."""
    last = F.max(F.greatest("at_ms", F.col("submitted_ms")))
    operations, span_ms = outcomes.agg(F.count("*"), last - F.min("submitted_ms")).collect()[0]
    return Span(operations, span_ms or 0)


class WheelTotals(NamedTuple):
    """What a candidate's wheels do in all."""

    levels: int = 0
    occupied_ms: float = 0.0
    cascades: int = 0
    moves: int = 0
    wakeups: int = 0


def wheel_row(
    wheel: WheelSize, totals: WheelTotals, late_ms: Sequence[float], span: Span
) -> WheelRow:
    """Make the row of a candidate; `late_ms`: the average and the most."""
    return WheelRow(
        wheel.tick_ms,
        wheel.wheel_size,
        totals.levels,
        _quotient(totals.occupied_ms, span.span_ms),
        totals.cascades,
        _quotient(totals.cascades, span.operations),
        _quotient(totals.moves, span.operations),
        totals.wakeups,
        _quotient(totals.wakeups * 1000, span.span_ms),
        late_ms[0],
        int(late_ms[1]),
    )


def _quotient(count: float, by: int) -> float:
    return count / by if by > 0 else 0.0


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


# The tick of a Timer's default, in the whole milliseconds that a journal knows.
DEFAULT_TICK_MS: Final = ceil(TIMER_TICK_MS)
# Part of the median timeout by which an expiry may be late.
_MAX_LATE: Final = 0.01
# A wheel with at most this part of the default's work is worth a change; works that differ by less
# than a tenth count as equal.
_WORTH: Final = 0.8
# Wake-ups a second that are not worth saving: each takes about 50 us.
_IDLE: Final = 1.0
_NEAR: Final = 1.1


class WheelChoice(NamedTuple):
    """A wheel to use and the reason. `call`: how a program makes it."""

    row: WheelRow
    is_default: bool
    call: str
    why: str


def choose_wheel(rows: Sequence[WheelRow], median_timeout_ms: int) -> WheelChoice:
    """Choose one of `rows` for operations with this median timeout."""
    default = next(filter(_is_default, rows), None)
    allowed_ms = max(DEFAULT_TICK_MS, _MAX_LATE * median_timeout_ms)
    finest = min(row.tick_ms for row in rows)
    fit = [row for row in rows if row.tick_ms <= allowed_ms or row.tick_ms == finest]
    wakeups = min(row.wakeups_per_second for row in fit)
    calm = [row for row in fit if row.wakeups_per_second <= wakeups * _NEAR]
    moves = min(row.moves_per_operation for row in calm)
    still = [row for row in calm if row.moves_per_operation <= moves * _NEAR]
    best = min(still, key=lambda row: (row.tick_ms, row.wheel_size))
    if default is not None and not _is_worth_it(best, default):
        best = default
    call = f"Timer(tick_ms={best.tick_ms}, wheel_size={best.wheel_size})"
    return WheelChoice(best, _is_default(best), call, _why(best, default, median_timeout_ms))


def _is_default(row: WheelRow) -> bool:
    return (row.tick_ms, row.wheel_size) == (DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE)


def _is_worth_it(row: WheelRow, default: WheelRow) -> bool:
    if default.wakeups_per_second < _IDLE:
        return False
    return (
        row.wakeups_per_second < _WORTH * default.wakeups_per_second
        or row.moves_per_operation < _WORTH * default.moves_per_operation
    )


def _why(row: WheelRow, default: WheelRow | None, median_timeout_ms: int) -> str:
    wakeups = f"{number(row.wakeups_per_second)} wake-ups"
    moves = f"{number(row.moves_per_operation)} moves"
    if row is default and row.wakeups_per_second < _IDLE:
        return f"The default has little to do, with {wakeups} a second: leave it."
    if row is default:
        return (
            "The default is as good as any of these: no other wheel saves a fifth of its "
            f"{wakeups} a second, or of its {moves} an operation, without making an expiry late by "
            "more than a percent of the median timeout."
        )
    against = "" if default is None else f", not {number(default.wakeups_per_second)}"
    moved = "" if default is None else f", not {number(default.moves_per_operation)}"
    late_ms, part = row.max_lateness_ms, ""
    if late_ms and median_timeout_ms:
        part = f", {share(late_ms / median_timeout_ms)} of the median timeout"
    return (
        f"{wakeups} a second{against}; {moves} an operation{moved}. An expiry is at most "
        f"{duration(late_ms)} late{part}."
    )
