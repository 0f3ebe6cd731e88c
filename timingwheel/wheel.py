"""TimingWheel: one level of the hierarchy; `overflow` leads to the next. Its DelayQueue.

Level k has `size` slots of `tick_ns * size**k` ns each. A task goes to the lowest level that still
reaches its due time. When the clock comes to a slot of a higher level, the tasks in it *cascade*:
each is placed again, further down, until level 0 holds them to the tick.

Worked example: tick 1 ns, size 3, clock at 0.

    level 0   slots of 1 ns   due 1..2    each slot one due time
    level 1   slots of 3 ns   due 3..8    [3 4 5] [6 7 8]
    level 2   slots of 9 ns   due 9..26   [9..17] [18..26]

A task due at 25 goes to level 2, in the slot that starts at 18. At 18, 7 ns are left, so level 1
takes the task, in slot [24 25 26], and at 24 level 0.

The time passed to `advance` never goes back. The timer's lock guards the wheel: the read side fills
slots and adds levels, the write side moves the time and cascades. "Locked" means: the caller holds
either side, unless stated.
"""

from operator import attrgetter
from typing import Final

from sortedcontainers import SortedKeyList

from _purgatory_cpython.atomicity import LOCKED_SECTIONS
from _purgatory_cpython.locks import new_hot_rlock
from _purgatory_cpython.mypyc_types import i32, i64
from timingwheel.bucket import TimerCounters, TimerTaskList
from timingwheel.rwlock import ReadWriteLock

# No time is later (see `duration.MAX_DELAY_NS`).
END_OF_TIME_NS: Final = 2**63 - 1


class DelayQueue:
    """The occupied buckets of all levels in order of expiration; makes them, too.

    The reaper sleeps until the first bucket expires, whatever empty ticks lie before. An empty
    bucket is dropped when it is first: removal at once would put a search on the path of `cancel`.

    Any thread. Its lock is a leaf lock. `lock`, `counters`: the timer's, for the buckets.
    `wake_owed`: a bucket became the first, and the sleeping threads were not woken yet. Set under
    `lock`; cleared without the lock, just before waking them.

    An interrupt between two steps of the sorted list, or a re-entrant call by a finalizer, leaves
    the list dirty; `_rebuild` then makes it from `_members`.
    """

    __slots__ = (
        "_buckets",
        "_counters",
        "_dirty",
        "_first",
        "_lock",
        "_members",
        "_timer_lock",
        "wake_owed",
    )

    def __init__(self, lock: ReadWriteLock, counters: TimerCounters) -> None:
        self._timer_lock = lock
        self._counters = counters
        self.wake_owed: bool = False
        self._lock = new_hot_rlock()  # guards the fields below
        self._members: dict[TimerTaskList, None] = {}  # the buckets, in order of arrival
        self._buckets = self._sorted()
        self._first: TimerTaskList | None = None  # of `_buckets`, read more often than they change
        self._dirty = False

    def __len__(self) -> int:
        return len(self._members)

    def new_bucket(self, level: i32, expiration_ns: i64) -> TimerTaskList:
        """Make an empty bucket, in the queue. Locked."""
        bucket = TimerTaskList(self._timer_lock, self._counters, level, expiration_ns)
        try:
            if self.offer(bucket):
                self.wake_owed = True
        except BaseException:  # an interrupt: the bucket may be first in the queue
            self.wake_owed = True
            raise
        return bucket

    def offer(self, bucket: TimerTaskList) -> bool:
        """Put a bucket in; True if it is now the first."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            self._members[bucket] = None
            if LOCKED_SECTIONS:
                _two_lists()
            self._dirty = True
            self._buckets.add(bucket)
            self._first = self._buckets[0] if self._buckets else None
            self._dirty = False
            # A signal handler or finalizer that closes the timer drops the empty bucket meanwhile.
            if bucket not in self._members:
                return self.offer(bucket)
            return self._first is bucket

    def first(self) -> TimerTaskList | None:
        """Return the first bucket to expire, or None."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            return self._first

    def remove(self, bucket: TimerTaskList) -> None:
        """Remove a bucket, if it is here."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            if bucket in self._members:
                self._dirty = True
                del self._members[bucket]
                self._buckets.remove(bucket)
                self._first = self._buckets[0] if self._buckets else None
                self._dirty = False

    def snapshot(self) -> list[TimerTaskList]:
        """Return all buckets in order. O(n)."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            return list(self._buckets)

    def _rebuild(self) -> None:
        self._buckets = self._sorted()
        self._first = self._buckets[0] if self._buckets else None
        self._dirty = False

    def _sorted(self) -> "SortedKeyList[TimerTaskList, int]":
        return SortedKeyList(self._members, key=attrgetter("expiration_ns"))

    def __repr__(self) -> str:
        return f"<DelayQueue {len(self)} buckets, first {self.first()!r}>"


def _two_lists() -> list[list[object]]:
    """Return two lists, whose memory `SortedKeyList.add` gets: see `_memory_shortage.h`."""
    return [[], []]


class TimingWheel:
    """One level of the hierarchy: the buckets in its slots.

    `start_ns`: any time not after the first due time. `queue`: makes the buckets of all levels.
    """

    __slots__ = (
        "_overdue",
        "_queue",
        "interval_ns",
        "level",
        "limit_ns",
        "now_ns",
        "overflow",
        "size",
        "slots",
        "tick_ns",
    )

    def __init__(
        self, tick_ns: i64, size: i64, start_ns: i64, queue: DelayQueue, level: i32 = 0
    ) -> None:
        self.tick_ns: i64 = tick_ns
        self.size: i64 = size
        self.level: i32 = level
        # END_OF_TIME_NS for the topmost levels, which would reach beyond.
        self.interval_ns: i64 = END_OF_TIME_NS
        if tick_ns <= END_OF_TIME_NS // size:
            self.interval_ns = tick_ns * size
        self.now_ns: i64 = start_ns - start_ns % tick_ns
        # The first time beyond this level's reach.
        self.limit_ns: i64 = _limit_ns(self.now_ns, self.interval_ns)
        self.slots: list[TimerTaskList | None] = [None] * size
        self.overflow: TimingWheel | None = None
        self._queue = queue
        # Due tick -> bucket, for tasks already overdue when they cascaded: in the queue, and in no
        # slot. Used at level 0 only.
        self._overdue: dict[int, TimerTaskList] = {}

    def due_ns(self, deadline_ns: i64) -> i64:
        """Return when a deadline is due: rounded up to a tick."""
        return -(-deadline_ns // self.tick_ns) * self.tick_ns

    def level_for(self, due_ns: i64) -> "TimingWheel":
        """Return the lowest level that reaches `due_ns`; makes missing levels. Locked."""
        wheel = self
        while due_ns >= wheel.limit_ns and wheel.limit_ns != END_OF_TIME_NS:
            above = wheel.overflow
            wheel = wheel._grow() if above is None else above
        return wheel

    def bucket_for(self, due_ns: i64) -> TimerTaskList:
        """Return the bucket of any level for a future due time. Locked."""
        wheel = self.level_for(due_ns)
        slot = due_ns // wheel.tick_ns % wheel.size
        bucket = wheel.slots[slot]
        if bucket is None:
            # In this order: after an interrupt, a bucket in no slot is merely empty.
            bucket = self._queue.new_bucket(wheel.level, due_ns - due_ns % wheel.tick_ns)
            wheel.slots[slot] = bucket
        return bucket

    def cascade(self, bucket: TimerTaskList, count: i64, now_ns: i64) -> i64:
        """Move up to `count` tasks of a detached bucket further down. Write side.

        `now_ns`: the clock's reading. Returns the cost, in tasks. Each task is always in one bucket
        or the other, so a second call continues after an interrupt.
        """
        for _ in range(count):
            task = bucket.first()
            if task is None:  # a finalizer cancelled some
                break
            due_ns = self.due_ns(task.deadline_ns)
            late = due_ns <= now_ns
            target = self._overdue_bucket(due_ns) if late else self.bucket_for(due_ns)
            bucket.move(task, target)
            # By a finalizer or signal handler meanwhile.
            if target.level == 0 and task.deadline_ns > target.expiration_ns:
                target.has_rescheduled = True
        return count

    def _overdue_bucket(self, due_ns: i64) -> TimerTaskList:
        # Skips the levels between: after a long pause each of them would move the task once more.
        bucket = self._overdue.get(due_ns)
        if bucket is None or bucket.dispatched:
            bucket = self._queue.new_bucket(0, due_ns)
            self._overdue[due_ns] = bucket
        return bucket

    def advance(self, now_ns: i64) -> None:
        """Move all levels to `now_ns`; earlier buckets must be detached. Write side."""
        now_ns -= now_ns % self.tick_ns
        if now_ns <= self.now_ns:
            return
        # Top level first: after an interrupt this level is behind, so the next call continues. A
        # level behind the level below would cascade into its own past, endlessly.
        if self.overflow is not None:
            self.overflow.advance(now_ns)
        limit_ns = _limit_ns(now_ns, self.interval_ns)
        # No call in between: an interrupt finds both assigned or neither.
        self.now_ns = now_ns
        self.limit_ns = limit_ns

    def detach(self, bucket: TimerTaskList) -> None:
        """Take a bucket of any level out of its slot. Idempotent. Locked."""
        if self._overdue.get(bucket.expiration_ns) is bucket:
            del self._overdue[bucket.expiration_ns]
        wheel = self
        for _ in range(bucket.level):
            assert wheel.overflow is not None, bucket
            wheel = wheel.overflow
        slot = bucket.expiration_ns // wheel.tick_ns % wheel.size
        if wheel.slots[slot] is bucket:
            wheel.slots[slot] = None

    def levels(self) -> "list[TimingWheel]":
        """Return this level and all higher levels, lowest first."""
        found = [self]
        while (above := found[-1].overflow) is not None:
            found.append(above)
        return found

    def _grow(self) -> "TimingWheel":
        made = TimingWheel(self.interval_ns, self.size, self.now_ns, self._queue, self.level + 1)
        above = self.overflow
        if above is None:  # else a finalizer or a signal handler has made it meanwhile
            self.overflow = above = made
        return above

    def _check(self) -> None:
        """Assert every invariant of all levels. Locked."""
        for wheel in self.levels():
            assert wheel.now_ns % wheel.tick_ns == 0, wheel
            assert self.now_ns - self.now_ns % wheel.tick_ns <= wheel.now_ns, (self, wheel)
            assert wheel.limit_ns == _limit_ns(wheel.now_ns, wheel.interval_ns), wheel
            for slot, bucket in enumerate(wheel.slots):
                if bucket is not None:
                    assert bucket.level == wheel.level, (wheel, bucket)
                    assert bucket.expiration_ns // wheel.tick_ns % wheel.size == slot, bucket
                    assert wheel.now_ns <= bucket.expiration_ns < wheel.limit_ns, (wheel, bucket)

    def __repr__(self) -> str:
        used = sum(bucket is not None for bucket in self.slots)
        return (
            f"<TimingWheel level {self.level}, {used} of {self.size} slots of {self.tick_ns} ns, "
            f"now {self.now_ns}>"
        )


def _limit_ns(now_ns: i64, interval_ns: i64) -> i64:
    if now_ns > END_OF_TIME_NS - interval_ns:
        return END_OF_TIME_NS
    return now_ns + interval_ns
