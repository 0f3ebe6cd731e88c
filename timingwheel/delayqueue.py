"""DelayQueue: the occupied buckets in order of expiration.

That is what makes the timer tickless: its reaper sleeps until the first bucket here, however many
empty ticks lie before. At most one bucket a slot is in it, so it stays small.

A bucket whose tasks were all cancelled stays until it comes first, and is dropped then: removing
it at once would put a search on the path of a cancel that empties a bucket.
"""

import threading
from operator import attrgetter

from sortedcontainers import SortedKeyList

from timingwheel.bucket import TimerTaskList


class DelayQueue:
    """All methods may be called from any thread. Its lock is a leaf: it is held over no other.

    A sorted list changes in several steps. An interrupt between them, or a finalizer that comes
    back in here, finds it torn; it is then made anew from ``_members``.
    """

    __slots__ = ("_buckets", "_dirty", "_lock", "_members")

    def __init__(self) -> None:
        self._lock = threading.RLock()  # guards all of it
        self._members: dict[TimerTaskList, None] = {}  # what is in the queue, in order of arrival
        self._buckets = self._sorted()
        self._dirty = False

    def __len__(self) -> int:
        return len(self._members)

    def offer(self, bucket: TimerTaskList) -> bool:
        """Put a bucket in; True if it is now the first."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            self._members[bucket] = None
            self._dirty = True
            self._buckets.add(bucket)
            self._dirty = False
            return self._buckets[0] is bucket

    def first(self) -> TimerTaskList | None:
        """The bucket that expires first, left where it is; None when there is none."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            return self._buckets[0] if self._members else None

    def remove(self, bucket: TimerTaskList) -> None:
        """Take a bucket out; nothing happens if it is out already."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            if bucket in self._members:
                self._dirty = True
                del self._members[bucket]
                self._buckets.remove(bucket)
                self._dirty = False

    def snapshot(self) -> list[TimerTaskList]:
        """The buckets of this moment, first to expire first. O(n)."""
        with self._lock:
            if self._dirty:
                self._rebuild()
            return list(self._buckets)

    def _rebuild(self) -> None:
        self._buckets = self._sorted()
        self._dirty = False

    def _sorted(self) -> "SortedKeyList[TimerTaskList, int]":
        return SortedKeyList(self._members, key=attrgetter("expiration_ms"))

    def __repr__(self) -> str:
        return f"<DelayQueue {len(self)} buckets, first {self.first()!r}>"
