"""DelayQueue: the occupied buckets in order of expiration.

It makes the timer tickless: the reaper sleeps until the first bucket here expires, however many
empty ticks lie before. It holds at most one bucket a slot, so it stays small.

A bucket stays when its last task is cancelled, and is dropped when it is first: to remove it at
once would put a search on the path of that cancel.
"""

from operator import attrgetter

from sortedcontainers import SortedKeyList

from _purgatory_cpython.atomicity import LOCKED_SECTIONS
from _purgatory_cpython.locks import new_hot_rlock
from _purgatory_cpython.mypyc_types import i32, i64
from timingwheel.bucket import TimerCounters, TimerTaskList
from timingwheel.rwlock import ReadWriteLock


class DelayQueue:
    """Makes buckets, and holds them in order of expiration.

    Any thread. Its lock is a leaf lock. `lock`, `counters`: the timer's, for the buckets.
    `wake_owed`: a bucket became the first, and the sleeping threads were not woken yet. Set under
    `lock`; cleared without it, just before they are woken.

    A sorted list changes in several steps. An interrupt between two of them, or a re-entrant call
    by a finalizer, finds it dirty; it is then rebuilt from `_members`.
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
        self._first: TimerTaskList | None = None  # of `_buckets`: read more often than these change
        self._dirty = False

    def __len__(self) -> int:
        return len(self._members)

    def new_bucket(self, level: i32, expiration_ns: i64) -> TimerTaskList:
        """Make an empty bucket, in the queue. Under the timer's lock."""
        bucket = TimerTaskList(self._timer_lock, self._counters, level, expiration_ns)
        try:
            if self.offer(bucket):
                self.wake_owed = True
        except BaseException:  # an interrupt: it may be here, and would be before the next one
            self.wake_owed = True
            raise
        return bucket

    def offer(self, bucket: TimerTaskList) -> bool:
        """Put a bucket in; returns True if it is now the first."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            self._members[bucket] = None
            if LOCKED_SECTIONS:
                _two_lists()
            self._dirty = True
            self._buckets.add(bucket)
            self._first = self._buckets[0]
            self._dirty = False
            return self._first is bucket

    def first(self) -> TimerTaskList | None:
        """Return the bucket that expires first, or None; leaves it here."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            return self._first

    def remove(self, bucket: TimerTaskList) -> None:
        """Remove a bucket; does nothing if it is not here."""
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
        """Return all buckets, first to expire first. O(n)."""
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
    """Return what, once dropped, CPython keeps for the next lists that are made.

    For `SortedKeyList.add`, which is interpreted and makes two: see `_purgatory_cpython/_lists.h`.
    """
    return [[], []]
