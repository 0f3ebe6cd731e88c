"""DelayQueue: the occupied buckets in order of expiration.

That is what makes the timer tickless: its reaper sleeps until the first bucket here, however many
empty ticks lie before. At most one bucket a slot is in it, so it stays small.

A bucket whose tasks were all cancelled stays until it comes first, and is dropped then: removing
it at once would put a search on the path of a cancel that empties a bucket.
"""

import threading
from operator import attrgetter

from sortedcontainers import SortedKeyList

from timingwheel.tasklist import TimerTaskList


class DelayQueue:
    """All methods may be called from any thread. Its lock is a leaf: it is held over no other."""

    __slots__ = ("_buckets", "_lock")

    def __init__(self) -> None:
        self._buckets: SortedKeyList[TimerTaskList, int] = SortedKeyList(
            key=attrgetter("expiration_ms")
        )
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._buckets)

    def offer(self, bucket: TimerTaskList) -> bool:
        """Put a bucket in; True if it is now the first."""
        with self._lock:
            self._buckets.add(bucket)
            return self._buckets[0] is bucket

    def first(self) -> TimerTaskList | None:
        """The bucket that expires first, left where it is; None when there is none."""
        with self._lock:
            return self._buckets[0] if self._buckets else None

    def remove(self, bucket: TimerTaskList) -> None:
        """Take a bucket out; nothing happens if it is out already."""
        with self._lock:
            self._buckets.discard(bucket)

    def snapshot(self) -> list[TimerTaskList]:
        """The buckets of this moment, first to expire first. O(n)."""
        with self._lock:
            return list(self._buckets)

    def __repr__(self) -> str:
        return f"<DelayQueue {len(self)} buckets, first {self.first()!r}>"
