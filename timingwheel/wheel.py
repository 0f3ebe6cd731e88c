"""TimingWheel: one level of the hierarchy, and through ``overflow`` the levels above.

Level k has ``size`` slots of ``tick_ms * size**k`` ms each. A task goes to the lowest level whose
span still reaches its due time; when the clock comes to a slot of a higher level, the tasks in it
*cascade*: each is placed again, further down, until level 0 holds them to the tick.

Worked example: tick 1 ms, size 3, clock at 0.

    level 0   slots of 1 ms   due 1..2    each slot one due time
    level 1   slots of 3 ms   due 3..8    [3 4 5] [6 7 8]
    level 2   slots of 9 ms   due 9..26   [9..17] [18..26]

A task due at 20 goes to level 2, in the slot that starts at 18. At 18 it is placed again: 2 ms
are left, so level 0 takes it, and at 20 it is due. One due at 25 has 7 ms left at 18: it goes to
level 1, slot [24 25 26], and at 24 to level 0.

A wheel reads no clock: ``advance`` tells it the time, which never goes back. All of it is guarded
by the timer's lock: readers fill slots and add levels, the writer moves the time.
"""

from typing import Final

from timingwheel._cpython.mypyc_types import i32, i64
from timingwheel.bucket import TimerTaskList

# No time is later: sums of a time and a delay stay below it (see `clock.MAX_DELAY_MS`).
END_OF_TIME_MS: Final = 2**63 - 1


class TimingWheel:
    """One level. ``start_ms`` is any time not after the first due time. See the module."""

    __slots__ = (
        "interval_ms",
        "level",
        "limit_ms",
        "now_ms",
        "overflow",
        "size",
        "slots",
        "tick_ms",
    )

    def __init__(self, tick_ms: i64, size: i64, start_ms: i64, level: i32 = 0) -> None:
        self.tick_ms: i64 = tick_ms
        self.size: i64 = size
        self.level: i32 = level
        # The topmost levels would reach beyond the end of time.
        self.interval_ms: i64 = END_OF_TIME_MS
        if tick_ms <= END_OF_TIME_MS // size:
            self.interval_ms = tick_ms * size
        self.now_ms: i64 = start_ms - start_ms % tick_ms
        self.limit_ms: i64 = _limit_ms(
            self.now_ms, self.interval_ms
        )  # the first time that does not fit
        self.slots: list[TimerTaskList | None] = [None] * size
        self.overflow: TimingWheel | None = None

    def due_ms(self, deadline_ms: i64) -> i64:
        """The tick at which a deadline is due: rounded up, here and nowhere else."""
        return -(-deadline_ms // self.tick_ms) * self.tick_ms

    def level_for(self, due_ms: i64) -> "TimingWheel":
        """The lowest level that reaches ``due_ms``; levels are made as they are needed."""
        wheel = self
        while due_ms >= wheel.limit_ms and wheel.limit_ms != END_OF_TIME_MS:
            above = wheel.overflow
            wheel = wheel._grow() if above is None else above
        return wheel

    def advance(self, now_ms: i64) -> None:
        """Move all levels to ``now_ms``, up to which every bucket must have been detached."""
        now_ms -= now_ms % self.tick_ms
        if now_ms <= self.now_ms:
            return
        # From the top: after an interrupt this level is behind, so the next call goes on. A level
        # that stayed behind the one below would cascade into its own past, for ever.
        if self.overflow is not None:
            self.overflow.advance(now_ms)
        limit_ms = _limit_ms(now_ms, self.interval_ms)
        # No call between these: an interrupt finds both done or neither.
        self.now_ms = now_ms
        self.limit_ms = limit_ms

    def detach(self, bucket: TimerTaskList) -> None:
        """Free the slot of a bucket of any level; nothing happens if it is free already."""
        wheel = self
        for _ in range(bucket.level):
            assert wheel.overflow is not None, bucket
            wheel = wheel.overflow
        slot = bucket.expiration_ms // wheel.tick_ms % wheel.size
        if wheel.slots[slot] is bucket:
            wheel.slots[slot] = None

    def levels(self) -> "list[TimingWheel]":
        """This level and those above it, lowest first."""
        found = [self]
        while (above := found[-1].overflow) is not None:
            found.append(above)
        return found

    def _grow(self) -> "TimingWheel":
        self.overflow = TimingWheel(self.interval_ms, self.size, self.now_ms, self.level + 1)
        return self.overflow

    def _check(self) -> None:
        """Verify every invariant of this level and those above. Locked.

        After an interrupted `advance` a level may be behind those above it.
        """
        for wheel in self.levels():
            assert wheel.now_ms % wheel.tick_ms == 0, wheel
            assert self.now_ms - self.now_ms % wheel.tick_ms <= wheel.now_ms, (self, wheel)
            assert wheel.limit_ms == _limit_ms(wheel.now_ms, wheel.interval_ms), wheel
            for slot, bucket in enumerate(wheel.slots):
                if bucket is not None:
                    assert bucket.level == wheel.level, (wheel, bucket)
                    assert bucket.expiration_ms // wheel.tick_ms % wheel.size == slot, bucket
                    assert wheel.now_ms <= bucket.expiration_ms < wheel.limit_ms, (wheel, bucket)

    def __repr__(self) -> str:
        used = sum(bucket is not None for bucket in self.slots)
        return (
            f"<TimingWheel level {self.level}, {used} of {self.size} slots of {self.tick_ms} ms, "
            f"now {self.now_ms}>"
        )


def _limit_ms(now_ms: i64, interval_ms: i64) -> i64:
    if now_ms > END_OF_TIME_MS - interval_ms:
        return END_OF_TIME_MS
    return now_ms + interval_ms
