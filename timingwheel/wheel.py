"""TimingWheel: one level of the hierarchy, and through `overflow` the levels above.

Level k has `size` slots of `tick_ms * size**k` ms each. A task goes to the lowest level
that still reaches its due time; when the clock comes to a slot of a higher level, the tasks in it
*cascade*: each is placed again, further down, until level 0 holds them to the tick.

Worked example: tick 1 ms, size 3, clock at 0.

    level 0   slots of 1 ms   due 1..2    each slot one due time
    level 1   slots of 3 ms   due 3..8    [3 4 5] [6 7 8]
    level 2   slots of 9 ms   due 9..26   [9..17] [18..26]

A task due at 20 goes to level 2, in the slot that starts at 18. At 18 it is placed again: 2 ms
are left, so level 0 takes it, and at 20 it is due. One due at 25 has 7 ms left at 18: it goes to
level 1, slot [24 25 26], and at 24 to level 0.

A wheel reads no clock: the caller of `advance` gives it the time, which never goes back. The
timer's lock guards all of it: the read side fills slots and adds levels, the write side moves the
time and cascades. "Locked" says that the caller must hold the lock, either side unless stated.
"""

from typing import Final

from timingwheel._cpython.mypyc_types import i32, i64
from timingwheel.bucket import TimerTaskList
from timingwheel.delayqueue import DelayQueue

# No time is later: sums of a time and a delay stay below it (see `duration.MAX_DELAY_MS`).
END_OF_TIME_MS: Final = 2**63 - 1


class TimingWheel:
    """One level of the hierarchy, with the buckets in its slots.

    `start_ms`: any time not after the first due time. `queue`: makes the buckets of all levels.
    """

    __slots__ = (
        "_overdue",
        "_queue",
        "interval_ms",
        "level",
        "limit_ms",
        "now_ms",
        "overflow",
        "size",
        "slots",
        "tick_ms",
    )

    def __init__(
        self, tick_ms: i64, size: i64, start_ms: i64, queue: DelayQueue, level: i32 = 0
    ) -> None:
        self.tick_ms: i64 = tick_ms
        self.size: i64 = size
        self.level: i32 = level
        # The topmost levels would reach beyond the end of time.
        self.interval_ms: i64 = END_OF_TIME_MS
        if tick_ms <= END_OF_TIME_MS // size:
            self.interval_ms = tick_ms * size
        self.now_ms: i64 = start_ms - start_ms % tick_ms
        # The first time that does not fit into this level.
        self.limit_ms: i64 = _limit_ms(self.now_ms, self.interval_ms)
        self.slots: list[TimerTaskList | None] = [None] * size
        self.overflow: TimingWheel | None = None
        self._queue = queue
        # Due tick -> bucket, of tasks that were overdue already when they cascaded. These buckets
        # are in the queue, and in no slot. Used at level 0 only.
        self._overdue: dict[int, TimerTaskList] = {}

    def due_ms(self, deadline_ms: i64) -> i64:
        """Return when a deadline is due: rounded up to a tick."""
        if self.tick_ms == 1:  # the default: two divisions less for each task
            return deadline_ms
        return -(-deadline_ms // self.tick_ms) * self.tick_ms

    def level_for(self, due_ms: i64) -> "TimingWheel":
        """Return the lowest level that reaches `due_ms`; makes missing levels. Locked."""
        wheel = self
        while due_ms >= wheel.limit_ms and wheel.limit_ms != END_OF_TIME_MS:
            above = wheel.overflow
            wheel = wheel._grow() if above is None else above
        return wheel

    def bucket_for(self, due_ms: i64) -> TimerTaskList:
        """Return the bucket of any level for a future due time. Locked."""
        wheel = self.level_for(due_ms)
        slot = due_ms // wheel.tick_ms % wheel.size
        bucket = wheel.slots[slot]
        if bucket is None:
            # In this order: a bucket in the queue but in no slot is merely empty.
            bucket = self._queue.new_bucket(wheel.level, due_ms - due_ms % wheel.tick_ms)
            wheel.slots[slot] = bucket
        return bucket

    def cascade(self, bucket: TimerTaskList, count: i64, now_ms: i64) -> i64:
        """Move up to `count` tasks of a detached bucket further down.

        Write side. `now_ms`: the clock's reading. Returns the cost, in tasks. Each task is in one
        bucket or the other at any moment, so a second call continues an interrupted one.
        """
        for _ in range(count):
            task = bucket.first()
            if task is None:  # a finalizer cancelled some
                break
            due_ms = self.due_ms(task.deadline_ms)
            if due_ms > now_ms:
                bucket.move(task, self.bucket_for(due_ms))
            else:
                bucket.move(task, self._overdue_bucket(due_ms))
        return count

    def _overdue_bucket(self, due_ms: i64) -> TimerTaskList:
        # Skips the levels between: after a long pause each of them would move the task once more.
        bucket = self._overdue.get(due_ms)
        if bucket is None or bucket.dispatched:
            bucket = self._queue.new_bucket(0, due_ms)
            self._overdue[due_ms] = bucket
        return bucket

    def advance(self, now_ms: i64) -> None:
        """Move all levels to `now_ms`; earlier buckets must be detached. Write side."""
        now_ms -= now_ms % self.tick_ms
        if now_ms <= self.now_ms:
            return
        # Top level first: after an interrupt this level is behind, so the next call goes on. A
        # level that stayed behind the one below would cascade into its own past, endlessly.
        if self.overflow is not None:
            self.overflow.advance(now_ms)
        limit_ms = _limit_ms(now_ms, self.interval_ms)
        # No call between these: an interrupt finds both done or neither.
        self.now_ms = now_ms
        self.limit_ms = limit_ms

    def detach(self, bucket: TimerTaskList) -> None:
        """Take a bucket of any level out of its slot. Idempotent. Locked."""
        if self._overdue.get(bucket.expiration_ms) is bucket:
            del self._overdue[bucket.expiration_ms]
        wheel = self
        for _ in range(bucket.level):
            assert wheel.overflow is not None, bucket
            wheel = wheel.overflow
        slot = bucket.expiration_ms // wheel.tick_ms % wheel.size
        if wheel.slots[slot] is bucket:
            wheel.slots[slot] = None

    def levels(self) -> "list[TimingWheel]":
        """Return this level and those above it, lowest first."""
        found = [self]
        while (above := found[-1].overflow) is not None:
            found.append(above)
        return found

    def _grow(self) -> "TimingWheel":
        self.overflow = TimingWheel(
            self.interval_ms, self.size, self.now_ms, self._queue, self.level + 1
        )
        return self.overflow

    def _check(self) -> None:
        """Assert every invariant of this level and those above. Locked.

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
