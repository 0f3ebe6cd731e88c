"""Lanes: the wheels of a timer, one for each thread that makes tasks.

Threads of one wheel wait for its lock, and for cache lines of lock, bucket, array and counters. So,
compiled without the interpreter lock, each thread has a lane: a `WheelState` of its own. A task
belongs to the lane of the thread that made it, whichever thread adds, moves or cancels it. Worth
it: see docs/mechanisms.md.

Elsewhere a timer has no lanes; nor with `max_pending`: one lock must guard the count of all tasks.

A drain takes from the lane whose first bucket comes first, up to the first bucket of the next lane:
so tasks of all lanes are dispatched tick by tick.
"""

import threading
from collections import deque
from dataclasses import replace
from itertools import zip_longest
from operator import attrgetter
from typing import Any, Final

from _purgatory_cpython.atomicity import LOCKED_SECTIONS
from _purgatory_cpython.mypyc_types import i64
from _purgatory_cpython.sections import thread_number
from timingwheel.bucket import TimerTaskList
from timingwheel.rwlock import ReadWriteLock, is_owned
from timingwheel.stats import WheelLevel
from timingwheel.task import TimerTask
from timingwheel.wheel import END_OF_TIME_NS
from timingwheel.wheel_state import WheelState

MANY_LANES: Final[bool] = LOCKED_SECTIONS
# More threads share lanes. A drain looks at each lane. A power of two.
MAX_LANES: Final = 8


class Lanes:
    """The lanes of one timer. Any thread."""

    def __init__(self, tick_ns: i64, wheel_size: i64, now_ns: i64) -> None:
        self._tick_ns: i64 = tick_ns
        self._wheel_size: i64 = wheel_size
        # Of all lanes, in the order of their ticks.
        self.dispatch_queue: Final[deque[TimerTaskList]] = deque()
        self._mask: i64 = MAX_LANES - 1
        self._common_lock: Final = ReadWriteLock()
        self.first: Final = self._new_lane(now_ns)
        # Guarded by the first lane's lock, read without.
        self._lanes: Final[list[WheelState | None]] = [None] * (self._mask + 1)
        own_number: i64 = i64(thread_number()) if LOCKED_SECTIONS else 0
        self._lanes[own_number & self._mask] = self.first

    def of(self, task: TimerTask) -> WheelState:
        """Return the lane of a task, pending or not. Raises TimerForked in a forked child."""
        number = i64(self._number_of(task)) & self._mask
        lane = self._lanes[number]
        return self._make(number) if lane is None else lane

    def _number_of(self, task: TimerTask) -> int:
        return task._tt_lane

    def _make(self, number: i64) -> WheelState:
        with self.first.lock.reading():
            lane = self._lanes[number]
            if lane is None:
                lane = self._new_lane(self.first.wheel.now_ns)
                lane.counters.reaper_runs = self.first.counters.reaper_runs
                self._lanes[number] = lane
        return lane

    def _new_lane(self, now_ns: i64) -> WheelState:
        lock = LaneLock(self._common_lock)
        return WheelState(self._tick_ns, self._wheel_size, now_ns, self.dispatch_queue, lock)

    def all(self) -> list[WheelState]:
        """Return the present lanes."""
        return [lane for lane in self._lanes if lane is not None]

    # The methods below are of all lanes together.

    @property
    def pending(self) -> int:
        """See `TimerCounters`."""
        return sum([lane.counters.pending() for lane in self.all()])

    @property
    def fired(self) -> int:
        """See `TimerCounters`."""
        return sum([lane.counters.fired for lane in self.all()])

    def has_undelivered(self) -> bool:
        """See `WheelState`."""
        return any(lane.has_undelivered() for lane in self.all())

    def drain_batch(self, now_ns: i64) -> bool:
        """See `WheelState`; False if nothing is due in any lane."""
        lanes = self.all()
        next_ns: i64 = END_OF_TIME_NS  # when the first lane comes due, and when the second
        after_ns: i64 = END_OF_TIME_NS
        earliest = self.first
        for lane in lanes:
            due_ns = lane.next_due_ns()
            if due_ns < next_ns:
                earliest, next_ns, after_ns = lane, due_ns, next_ns
            else:
                after_ns = min(after_ns, due_ns)
        if after_ns <= now_ns:
            earliest.drain_batch(after_ns)
            return True  # the next lane has more
        worked = [lane.drain_batch(now_ns) for lane in lanes]
        return any(worked)

    def first_bucket(self) -> TimerTaskList | None:
        """Return the first bucket, with tasks or without."""
        return _earliest([lane.queue.first() for lane in self.all()])

    def next_occupied(self) -> TimerTaskList | None:
        """See `WheelState`."""
        return _earliest([lane.next_occupied() for lane in self.all()])

    def cancel_some(self) -> list[TimerTask]:
        """See `WheelState`."""
        for lane in self.all():
            if tasks := lane.cancel_some():
                return tasks
        return []

    def occupied(self) -> tuple[int, ...]:
        """See `WheelState`."""
        counts = zip_longest(*[lane.occupied() for lane in self.all()], fillvalue=0)
        return tuple([sum(count) for count in counts])

    def levels(self, now_ns: int) -> tuple[WheelLevel, ...]:
        """See `WheelState`."""
        merged: list[WheelLevel] = []
        for of_lanes in zip_longest(*[lane.levels(now_ns) for lane in self.all()]):
            same = [level for level in of_lanes if level is not None]
            slots = zip(*[level.slots for level in same], strict=True)
            merged.append(replace(same[0], slots=tuple([sum(counts) for counts in slots])))
        return tuple(merged)

    def first_tasks(self, limit: int) -> list[TimerTask]:
        """See `WheelState`."""
        found = [task for lane in self.all() for task in lane.first_tasks(limit)]
        return sorted(found, key=attrgetter("deadline_ns"))[:limit]

    def _check(self) -> None:
        for lane in self.all():
            lane._check()
        assert all(bucket.dispatched for bucket in self.dispatch_queue.copy()), self.dispatch_queue


class LaneLock(ReadWriteLock):
    """The lock of one lane, inside `common`, the lock of all lanes.

    Under a lane's lock a thread may run a finalizer, which may act on tasks of any lane. So both
    sides take the common lock first: no two threads wait for each other's lanes. An add waits for
    at most a batch of a drain.

    A section takes the lane's own lock alone: it runs no Python code.
    """

    __slots__ = ("_common",)

    def __init__(self, common: ReadWriteLock) -> None:
        super().__init__()
        self._common: Final = common
        self._reader = _LaneReader(common, self._lock)

    def is_inside(self) -> bool:
        return self._common.is_inside() or is_owned(self._lock)

    def _queue_behind_writer(self) -> None:
        # The writer has the common lock.
        self.check_usable()

    def __enter__(self) -> None:
        self.check_usable()
        self._common.__enter__()
        try:
            self._writer = threading.get_ident()
            self._lock.acquire()
        except BaseException:
            self.release_write()
            raise

    def _try_release_write(self) -> bool:
        try:
            if self._writer == threading.get_ident():
                if is_owned(self._lock):
                    self._lock.release()
                self._writer = 0
        except MemoryError:
            return False
        self._common.release_write()
        return True


class _LaneReader:
    """The read side of a lane's lock."""

    def __init__(self, common: ReadWriteLock, lock: Any) -> None:
        self._common: Final = common
        self._lock: Final = lock

    def __enter__(self) -> None:
        self._common.enter_reading()
        self._lock.acquire()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._lock.release()
        self._common.leave_reading()


def _earliest(buckets: list[TimerTaskList | None]) -> TimerTaskList | None:
    first: TimerTaskList | None = None
    for bucket in buckets:
        if bucket is not None and (first is None or bucket.expiration_ns < first.expiration_ns):
            first = bucket
    return first
