"""The buckets that operations pass in timing wheels of other dimensions, by their deadlines.

Arithmetic on columns of Arrow by the placement rules of `timingwheel`:

- A deadline is due at the next tick, rounded up.
- An operation goes to the lowest level that reaches that tick, counted in slots from the current
  slot.
- In a level with slots of u units, its bucket comes due at `due - due % u`. Then each operation
  still in the bucket moves to a lower level, or is due.

So below its first level an operation visits the levels where the digit of `due` in base
`wheel_size` is not 0, and enters each when the next level's bucket that holds `due` begins.

The unit of time is a millisecond, or the part of it that makes the tick whole: for 0.2 ms a fifth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

# A thousand years of ms, in units. Longer waits are cut: products of widths and sizes have 64 bits.
MAX_WAIT: Final = 2**45
# A million years. With a fractional tick, later times are cut.
_MAX_TIME_MS: Final = 2**55
NEVER_MS: Final = 2**63 - 1

# A column of int64, or of bool; pyarrow has no type hints.
_Longs: TypeAlias = Any
_Truths: TypeAlias = Any

BUCKET: Final = "expiration"


class WheelSize(NamedTuple):
    """Dimensions of a wheel."""

    tick_ms: float
    wheel_size: int

    @property
    def tick(self) -> int:
        """The units of a tick."""
        return Fraction(str(self.tick_ms)).numerator

    @property
    def scale(self) -> int:
        """The units of a millisecond."""
        return Fraction(str(self.tick_ms)).denominator

    def slot_widths(self, longest_ms: int) -> list[int]:
        """Return the units per slot of each level, for waits up to `longest_ms`."""
        longest = min(longest_ms * self.scale, MAX_WAIT)
        widths = [self.tick]
        # Rounding up adds less than a tick, and the current slot began less than a slot ago.
        while widths[-1] * (self.wheel_size - 1) < longest + self.tick:
            widths.append(widths[-1] * self.wheel_size)
        return widths


class WheelTasks(NamedTuple):
    """The operations in a wheel, in its units; `due`: by ticks."""

    submitted: _Longs
    deadline: _Longs
    end: _Longs
    due: _Longs

    @classmethod
    def of(cls, wheel: WheelSize, columns: Sequence[_Longs]) -> WheelTasks:
        """Make tasks of columns of ms: submission, deadline and end."""
        submitted, deadline, end = columns
        if wheel.scale > 1:
            wait, stay = (
                _scaled(pc.subtract(at, submitted), wheel.scale) for at in (deadline, end)
            )
            submitted = _scaled(submitted, wheel.scale)
            deadline = pc.add(submitted, wait)
            end = pc.if_else(pc.equal(end, NEVER_MS), NEVER_MS, pc.add(submitted, stay))
        deadline = pc.min_element_wise(deadline, pc.add(submitted, MAX_WAIT))
        due = pc.negate(_slot_start(pc.negate(deadline), wheel.tick))
        return cls(submitted, deadline, end, due)


def _scaled(column: _Longs, scale: int) -> _Longs:
    within = pc.max_element_wise(pc.min_element_wise(column, _MAX_TIME_MS), -_MAX_TIME_MS)
    return pc.multiply(within, scale)


def buckets_of_levels(wheel: WheelSize, tasks: WheelTasks, longest_ms: int) -> Iterator[pa.Table]:
    """Yield a row for each bucket that tasks visit, level by level.

    Columns: `BUCKET`, the due time; `enter_min` and `leave_max`, of its tasks; `stayed_sum`: how
    many tasks were still in the bucket then.
    """
    expiration, begun = tasks.due, _slot_start(tasks.submitted, wheel.tick)
    came_below, begun_below = expiration, begun
    for slot in wheel.slot_widths(longest_ms):
        next_slot = slot * wheel.wheel_size
        came_from = _slot_start(tasks.due, next_slot)
        reached = pc.less(pc.subtract(expiration, begun), next_slot)
        # Always true for level 0.
        not_below = pc.greater_equal(pc.subtract(came_below, begun_below), slot)
        visited = pc.if_else(reached, not_below, pc.not_equal(expiration, came_from))
        enter = pc.if_else(reached, tasks.submitted, came_from)
        visited = pc.and_(visited, pc.less(enter, tasks.end))
        yield _buckets(expiration, enter, tasks.end, visited)
        came_below, begun_below = expiration, begun
        expiration, begun = came_from, _slot_start(tasks.submitted, next_slot)


def _buckets(expiration: _Longs, enter: _Longs, end: _Longs, visited: _Truths) -> pa.Table:
    columns = {
        BUCKET: expiration,
        "enter": enter,
        "leave": pc.min_element_wise(end, expiration),
        "stayed": pc.greater(end, expiration).cast(pa.int64()),
    }
    sums = [("enter", "min"), ("leave", "max"), ("stayed", "sum")]
    return pa.table(columns).filter(visited).group_by(BUCKET).aggregate(sums)


def _slot_start(time: _Longs, width: int) -> _Longs:
    if width == 1:
        return time
    # Arrow rounds quotients towards zero.
    over = pc.subtract(time, pc.multiply(pc.divide(time, width), width))
    over = pc.if_else(pc.less(over, 0), pc.add(over, width), over)
    return pc.subtract(time, over)


class BucketCounter:
    """Counts the buckets of a partition's tasks; for `mapInArrow`."""

    def __init__(self, candidates: Sequence[WheelSize], longest_ms: int) -> None:
        self._candidates = tuple(candidates)
        self._longest_ms = longest_ms

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, wheel in enumerate(self._candidates):
                tasks = WheelTasks.of(wheel, batch.columns)
                for level, buckets in enumerate(buckets_of_levels(wheel, tasks, self._longest_ms)):
                    labels = [pa.array([n] * len(buckets), pa.int64()) for n in (number, level)]
                    columns = [column.combine_chunks() for column in buckets.columns]
                    yield pa.RecordBatch.from_arrays(
                        [*labels, *columns], ["candidate", "level", *buckets.column_names]
                    )


COUNTED: Final = (
    "candidate long, level long, expiration long, enter_min long, leave_max long, stayed_sum long"
)
