"""Wheel tuning: how other timing wheels would have handled the same deadlines; which to use.

The buckets of a small journal are put together in memory, of a large journal by Spark, from partial
sums of Python workers.

Assumptions: the timer is advanced at each submission, as by the loop of a purgatory; within one
millisecond completions come first, then due operations, then submissions; ticks count from the Unix
epoch; times are whole milliseconds, so ticks below one differ only in their levels.

For any thread that may use the DataFrame.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from purgatory.spark.report.content import WheelRow
from purgatory.spark.report.formatting import duration, number, share
from purgatory.spark.report.wheel_buckets import (
    BUCKET,
    COUNTED,
    MAX_WAIT,
    NEVER_MS,
    BucketCounter,
    WheelSize,
    WheelTasks,
    buckets_of_levels,
)
from timingwheel.lowlevel import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE

DEFAULT_TICKS_MS: Final = (DEFAULT_TICK_MS, 1, 10, 100, 1000)
DEFAULT_WHEEL_SIZES: Final = (20, DEFAULT_WHEEL_SIZE, 512)

MIN_TICK_MS: Final = 0.01
MAX_TICK_MS: Final = 2**31
MAX_WHEEL_SIZE: Final = 2**16
MAX_CANDIDATES: Final = 100
_MAX_SCALE: Final = 100


def wheel_sizes(
    ticks_ms: Iterable[float] = DEFAULT_TICKS_MS, sizes: Iterable[int] = DEFAULT_WHEEL_SIZES
) -> list[WheelSize]:
    """Combine each tick with each size, in order. Raises ValueError."""
    wheels = []
    for tick_ms, size in sorted({*product(ticks_ms, sizes)}):
        _check_range("tick_ms", tick_ms, MIN_TICK_MS, MAX_TICK_MS)
        _check_range("wheel_size", size, 2, MAX_WHEEL_SIZE)
        if _MAX_SCALE % Fraction(str(tick_ms)).denominator:
            raise ValueError(f"tick_ms is {tick_ms!r}; expected hundredths of a millisecond")
        wheels.append(WheelSize(int(tick_ms) if tick_ms == int(tick_ms) else tick_ms, size))
    return wheels


def check_candidates(candidates: Sequence[WheelSize]) -> None:
    """Raise ValueError for no candidates, and for too many at once."""
    if not 1 <= len(candidates) <= MAX_CANDIDATES:
        raise ValueError(f"{len(candidates)} wheels; expected 1 to {MAX_CANDIDATES}")


def compare_wheels(
    outcomes: DataFrame, candidates: Sequence[WheelSize], longest_ms: int, *, in_memory: bool
) -> list[WheelRow]:
    """Compute what each candidate's wheels would have done.

    Returns a row for each, ordered by tick and size. `levels`: used. `buckets`: occupied on
    average, from the first submission to the last outcome. `cascades`: buckets with operations
    moved to a lower level; `moves_per_operation` counts these operations. `wakeups`: times at which
    buckets came due. `lateness_ms`, `max_lateness_ms`: what rounding up to the tick adds to an
    expiry, on average and at most.

    `longest_ms`: at least the longest timeout. Operations without a timeout never enter a wheel,
    yet count. `in_memory` takes more memory, and much less work. Raises as `check_candidates`.
    """
    check_candidates(candidates)
    wheels, tasks = sorted(candidates), _tasks(outcomes)
    work = _work_in_memory if in_memory else _work_on_spark
    last = F.max(F.greatest("at_ms", F.col("submitted_ms")))
    operations, span_ms = outcomes.agg(F.count("*"), last - F.min("submitted_ms")).collect()[0]
    return [
        _wheel_row(wheel, done, operations, span_ms or 0)
        for wheel, done in zip(wheels, work(tasks, wheels, longest_ms), strict=True)
    ]


class WheelWork(NamedTuple):
    """The work of a candidate's wheels; `occupied` in their units."""

    levels: int = 0
    occupied: float = 0.0
    cascades: int = 0
    moves: int = 0
    wakeups: int = 0
    lateness_ms: float = 0.0
    max_lateness_ms: float = 0


def _wheel_row(wheel: WheelSize, done: WheelWork, operations: int, span_ms: int) -> WheelRow:
    return WheelRow(
        wheel.tick_ms,
        wheel.wheel_size,
        done.levels,
        _quotient(done.occupied, span_ms * wheel.scale),
        done.cascades,
        _quotient(done.cascades, operations),
        _quotient(done.moves, operations),
        done.wakeups,
        _quotient(done.wakeups * 1000, span_ms),
        done.lateness_ms,
        done.max_lateness_ms,
    )


def _quotient(count: float, by: int) -> float:
    return count / by if by > 0 else 0.0


def _tasks(outcomes: DataFrame) -> DataFrame:
    """Return `submitted_ms, deadline_ms, end_ms` of the operations that enter a wheel."""
    submitted = F.col("submitted_ms")
    last = F.least("deadline_ms", submitted + F.lit(MAX_WAIT))
    end = F.when(F.col("outcome") == "expired", F.lit(NEVER_MS)).otherwise(F.col("at_ms"))
    return outcomes.where(F.col("deadline_ms") > submitted).select(
        submitted, last.alias("deadline_ms"), end.alias("end_ms")
    )


def _work_in_memory(
    tasks: DataFrame, wheels: Sequence[WheelSize], longest_ms: int
) -> list[WheelWork]:
    columns = [column.combine_chunks() for column in tasks.toArrow().columns]
    return [_work(wheel, WheelTasks.of(wheel, columns), longest_ms) for wheel in wheels]


def _work(wheel: WheelSize, tasks: WheelTasks, longest_ms: int) -> WheelWork:
    levels = cascades = moves = 0
    occupied = 0.0
    instants = []
    for level, buckets in enumerate(buckets_of_levels(wheel, tasks, longest_ms)):
        if not len(buckets):
            continue
        levels = level + 1
        # A sum over all buckets may exceed 64 bits.
        stays = pc.subtract(buckets["leave_max"], buckets["enter_min"]).cast(pa.float64())
        occupied += pc.sum(stays).as_py()
        stayed = pc.greater(buckets["stayed_sum"], 0)
        instants += buckets[BUCKET].filter(stayed).chunks
        if level:
            cascades += pc.sum(stayed).as_py()
            moves += pc.sum(buckets["stayed_sum"]).as_py()
    # Buckets of several levels that come due at once wake the reaper once.
    wakeups = pc.count_distinct(pa.chunked_array(instants, pa.int64())).as_py()
    late = pc.subtract(tasks.due, tasks.deadline).filter(pc.greater(tasks.end, tasks.due))
    average, most = pc.mean(late).as_py() or 0.0, pc.max(late).as_py() or 0
    late_ms = (average / wheel.scale, most / wheel.scale if wheel.scale > 1 else most)
    return WheelWork(levels, occupied, cascades, moves, wakeups, *late_ms)


def _work_on_spark(
    tasks: DataFrame, wheels: Sequence[WheelSize], longest_ms: int
) -> list[WheelWork]:
    counted = tasks.mapInArrow(BucketCounter(wheels, longest_ms), COUNTED)
    totals = {number: row for number, *row in _totals(counted).collect()}
    late = [column for wheel in wheels for column in _lateness(wheel)]
    late_ms = [value or 0 for value in tasks.agg(*late).collect()[0]]
    nothing = WheelWork()[:5]
    return [
        WheelWork(*totals.get(n, nothing), *late_ms[2 * n : 2 * n + 2]) for n in range(len(wheels))
    ]


def _totals(counted: DataFrame) -> DataFrame:
    """Sum up the buckets by candidate, as the first columns of `WheelWork`."""
    above = F.col("level") > 0
    buckets = counted.groupBy("candidate", "level", BUCKET).agg(
        # A sum over all buckets may exceed 64 bits.
        (F.max("leave_max") - F.min("enter_min")).cast("double").alias("occupied"),
        F.sum("stayed_sum").alias("stayed"),
    )
    instants = buckets.groupBy("candidate", BUCKET).agg(
        F.max("level").alias("level"),
        F.sum("occupied").alias("occupied"),
        F.sum((above & (F.col("stayed") > 0)).cast("long")).alias("cascades"),
        F.sum(F.when(above, F.col("stayed")).otherwise(0)).alias("moves"),
        F.max((F.col("stayed") > 0).cast("long")).alias("wakeups"),
    )
    sums = (F.sum(name) for name in ("occupied", "cascades", "moves", "wakeups"))
    return instants.groupBy("candidate").agg(F.max("level") + 1, *sums)


def _lateness(wheel: WheelSize) -> tuple[Column, Column]:
    deadline, tick, scale = F.col("deadline_ms"), F.lit(wheel.tick), F.lit(wheel.scale)
    late = F.pmod(F.pmod(-deadline, tick) * scale, tick)
    late_ms = late / scale if wheel.scale > 1 else late
    is_late = F.col("end_ms") > deadline + F.floor(late / scale)
    return F.avg(F.when(is_late, late_ms)), F.max(F.when(is_late, late_ms))


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; expected {least} to {most}")


# Lateness allowed, by the median timeout.
_MAX_LATE: Final = 0.01
# A wheel is worth a change with this part of the default's work.
_WORTH: Final = 0.8
# Fewer wake-ups a second are not worth saving.
_IDLE: Final = 1.0
_NEAR: Final = 1.1  # counts as equal


class WheelChoice(NamedTuple):
    """A wheel to use and the reason. `call`: the wheel's timer in Python."""

    row: WheelRow
    is_default: bool
    call: str
    why: str


def choose_wheel(rows: Sequence[WheelRow], median_timeout_ms: int) -> WheelChoice:
    """Choose from `rows` for operations with this median timeout.

    Of the wheels that make an expiry late by at most a percent of the timeout, choose the one that
    wakes least, then moves fewest operations; but the default unless it has much more to do.
    """
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
    # Whole milliseconds hide a shorter tick.
    late_ms, part = max(row.max_lateness_ms, row.tick_ms if row.tick_ms < 1 else 0), ""
    if late_ms and median_timeout_ms:
        part = f", {share(late_ms / median_timeout_ms)} of the median timeout"
    return (
        f"{wakeups} a second{against}; {moves} an operation{moved}. An expiry is at most "
        f"{duration(late_ms)} late{part}."
    )
