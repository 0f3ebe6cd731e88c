"""Wheel tuning in memory, for the outcomes of a journal that is not large.

`compare_wheels_in_memory` computes what `wheel_tuning.compare_wheels` does, by the same rules,
which are explained there. Columns of Arrow take a tenth of the work: no row is made for each bucket
that an operation visits, and no shuffle is needed to put buckets together. Any thread that may use
the DataFrame may call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from purgatory.spark.report.wheel_tuning import (
    MAX_WAIT_MS,
    Span,
    WheelSize,
    WheelTotals,
    check_candidates,
    span_of,
    wheel_row,
    wheel_tasks,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from purgatory.spark.report.content import WheelRow

# A column of int64, or of bool; pyarrow has no type hints.
_Longs: TypeAlias = Any
_Truths: TypeAlias = Any

_BUCKET: Final = "expiration_ms"


class _Tasks(NamedTuple):
    """The operations that enter a wheel; `due`: by a wheel's ticks."""

    submitted: _Longs
    deadline: _Longs
    end: _Longs
    due: _Longs


def compare_wheels_in_memory(
    outcomes: DataFrame, candidates: Sequence[WheelSize], longest_ms: int
) -> list[WheelRow]:
    """Compute what each candidate's wheels would have done; see `compare_wheels`.

    Takes a few hundred bytes of memory for each outcome.
    """
    check_candidates(candidates)
    table = wheel_tasks(outcomes).toArrow()
    columns = [table[name].combine_chunks() for name in ("submitted_ms", "deadline_ms", "end_ms")]
    longest_ms = min(longest_ms, MAX_WAIT_MS)
    span = span_of(outcomes)
    return [_row(wheel, columns, longest_ms, span) for wheel in sorted(candidates)]


def _row(wheel: WheelSize, columns: list[_Longs], longest_ms: int, span: Span) -> WheelRow:
    submitted, deadline, end = columns
    tasks = _Tasks(submitted, deadline, end, _due_ms(deadline, wheel.tick_ms))
    late = pc.subtract(tasks.due, deadline).filter(pc.greater(end, tasks.due))
    late_ms = (pc.mean(late).as_py() or 0.0, pc.max(late).as_py() or 0)
    return wheel_row(wheel, _totals(wheel, tasks, longest_ms), late_ms, span)


def _totals(wheel: WheelSize, tasks: _Tasks, longest_ms: int) -> WheelTotals:
    """Sum up the buckets of all levels."""
    levels = cascades = moves = 0
    occupied_ms = 0.0
    instants = []
    for level, buckets in enumerate(_buckets_of_levels(wheel, tasks, longest_ms)):
        if not len(buckets):
            continue
        levels = level + 1
        occupied = pc.subtract(buckets["leave_ms_max"], buckets["enter_ms_min"])
        # As a float, because the sum over all buckets may exceed 64 bits.
        occupied_ms += pc.sum(occupied.cast(pa.float64())).as_py()
        stayed = pc.greater(buckets["stayed_sum"], 0)
        instants += buckets[_BUCKET].filter(stayed).chunks
        if level:
            cascades += pc.sum(stayed).as_py()
            moves += pc.sum(buckets["stayed_sum"]).as_py()
    # Buckets of several levels that come due at once wake the reaper only once.
    wakeups = pc.count_distinct(pa.chunked_array(instants, pa.int64())).as_py()
    return WheelTotals(levels, occupied_ms, cascades, moves, wakeups)


def _buckets_of_levels(wheel: WheelSize, tasks: _Tasks, longest_ms: int) -> Iterator[pa.Table]:
    """Yield a row for each bucket of a level that tasks visit, level by level."""
    expiration, begun = tasks.due, _slot_start(tasks.submitted, wheel.tick_ms)
    came_below, begun_below = expiration, begun
    for slot_ms in wheel.slot_widths(longest_ms):
        next_slot_ms = slot_ms * wheel.wheel_size
        came_from = _slot_start(tasks.due, next_slot_ms)
        reached = pc.less(pc.subtract(expiration, begun), next_slot_ms)
        # Always true for level 0, which is its own lower level.
        not_below = pc.greater_equal(pc.subtract(came_below, begun_below), slot_ms)
        visited = pc.if_else(reached, not_below, pc.not_equal(expiration, came_from))
        enter = pc.if_else(reached, tasks.submitted, came_from)
        visited = pc.and_(visited, pc.less(enter, tasks.end))
        yield _buckets(expiration, enter, tasks.end, visited)
        came_below, begun_below = expiration, begun
        expiration, begun = came_from, _slot_start(tasks.submitted, next_slot_ms)


def _buckets(expiration: _Longs, enter: _Longs, end: _Longs, visited: _Truths) -> pa.Table:
    """Put the visits of a level together by bucket."""
    columns = {
        _BUCKET: expiration,
        "enter_ms": enter,
        "leave_ms": pc.min_element_wise(end, expiration),
        "stayed": pc.greater(end, expiration).cast(pa.int64()),
    }
    sums = [("enter_ms", "min"), ("leave_ms", "max"), ("stayed", "sum")]
    return pa.table(columns).filter(visited).group_by(_BUCKET).aggregate(sums)


def _due_ms(deadline: _Longs, tick_ms: int) -> _Longs:
    """Round deadlines up to the tick at which they are due."""
    return pc.negate(_slot_start(pc.negate(deadline), tick_ms))


def _slot_start(time: _Longs, width_ms: int) -> _Longs:
    """Return the start of the slot that contains the time."""
    if width_ms == 1:
        return time
    # Arrow rounds quotients towards zero.
    over = pc.subtract(time, pc.multiply(pc.divide(time, width_ms), width_ms))
    over = pc.if_else(pc.less(over, 0), pc.add(over, width_ms), over)
    return pc.subtract(time, over)
