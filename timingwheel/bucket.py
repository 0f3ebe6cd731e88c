"""TimerTaskList: a bucket, the tasks that share one stretch of time.

A bucket lives in one slot of one wheel for one stretch of time, and is in the delay queue for as
long. When it comes due it is *detached*: taken out of both, whole, in O(1). What is in it stays in
it, so a task can still be cancelled while its bucket waits to cascade or lies with the executor.

Tasks stand in an array in order of arrival, and each knows its place. To cancel one is to empty its
place. That touches no other task, and in random order each task that is touched is a wait for main
memory; links to the neighbours would make it three. The slot itself is not waited
for (`clear_slot_streaming`).
Where half of the places are empty, those that are taken move together, a portion at a time,
whenever room is needed.

    places    -  -  -  c  -  d  -  -  e  f  .  .        a, b were run; - was cancelled
                       head                 end   room

Lock: the timer's ReadWriteLock guards all buckets of that timer. Methods that say "locked" leave
the locking to the caller, either side; the others take the read side.

Sections under the lock that change more than one field are free of calls on purpose: CPython lets
signal handlers and the finalizers of collected objects in only at calls, loops and allocations, so
a KeyboardInterrupt, or a finalizer that adds to this very bucket, finds it before such a section or
after it, never inside. (Other threads are kept out by the lock alone.)
"""

from typing import Final

from timingwheel._cpython.atomicity import ATOMIC_SECTIONS
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC, gc_track, gc_untrack
from timingwheel._cpython.mypyc_types import i32, i64
from timingwheel._cpython.streaming_store import HAS_STREAMING_STORE, clear_slot_streaming
from timingwheel.rwlock import ReadWriteLock
from timingwheel.task import CANCELLED, NEW, RUNNING, TimerTask

# Places that are added at a time: as many as there are, up to a few; from then on an eighth.
MIN_CAPACITY: Final = 16
SMALL_CAPACITY: Final = 256
GROWTH_LIMIT: Final = 4096
# And kept by a bucket from which all was cancelled: it may come to be used again.
RETAINED_CAPACITY: Final = 32

# Places looked at whenever room is needed, while tasks are being moved together: more than are
# added, so that it comes to an end.
COMPACTION_STEP: Final = 4 * GROWTH_LIMIT

# So far behind the end, a place was written so long ago that the nearer caches have it no more:
# half a megabyte of tasks has passed through them since.
STREAMING_STORE_DISTANCE: Final = 4096

# Bound once: compiled, that saves a look into the module's dict for each task.
_UNTRACKS_FROM_GC: Final = UNTRACKS_FROM_GC
_gc_untrack: Final = gc_untrack
_gc_track: Final = gc_track
_HAS_STREAMING_STORE: Final = HAS_STREAMING_STORE
_clear_slot_streaming: Final = clear_slot_streaming


class TimerCounters:
    """A timer's counts, guarded by its lock; plain reads from outside are exact enough to show."""

    __slots__ = ("backlog", "cancelled", "fired", "pending")

    def __init__(self) -> None:
        self.pending: i64 = 0  # in the wheel
        self.backlog: i64 = 0  # with the executor, not started
        self.fired: i64 = 0
        self.cancelled: i64 = 0


class TimerTaskList:
    """A bucket: O(1), amortized, to add to, to cancel from and to take from. See the module.

    ``level``: 0 if all of it is due at ``expiration_ms``, else the wheel's, to be cascaded then.
    """

    __slots__ = (
        "_capacity",
        "_compact_read",
        "_compact_write",
        "_count",
        "_counters",
        "_end",
        "_head",
        "_lock",
        "_slots",
        "_slots_untracked",
        "dispatched",
        "expiration_ms",
        "level",
    )

    def __init__(
        self, lock: ReadWriteLock, counters: TimerCounters, level: i32, expiration_ms: i64
    ) -> None:
        self._lock = lock
        self._counters = counters
        self._slots: list[TimerTask | None] = [None] * MIN_CAPACITY
        # Tasks are from the head on and before the end; every other place is empty.
        self._head: i32 = 0
        self._end: i32 = 0
        self._capacity: i32 = MIN_CAPACITY  # places there are; to spare, or `add` would need a call
        self._count: i32 = 0
        # How far the pass that moves tasks together has read, and written; 0: none is under way.
        self._compact_read: i32 = 0
        self._compact_write: i32 = 0
        # Whether the collector passes over the places, as it may when it does over all in them.
        self._slots_untracked = _UNTRACKS_FROM_GC
        self.level: i32 = level
        self.expiration_ms: i64 = expiration_ms
        self.dispatched = False  # to the executor
        if _UNTRACKS_FROM_GC:
            _gc_untrack(self._slots)

    def __len__(self) -> int:
        return self._count

    def belongs_to(self, lock: ReadWriteLock) -> bool:
        """Whether this is a bucket of the timer that has ``lock``."""
        return self._lock is lock

    def add(self, task: TimerTask) -> None:
        """Append a task that is in no list. Locked; free of calls, unless it is full."""
        while self._end == self._capacity:
            self._grow_or_compact()
        end = self._end
        self._slots[end] = task
        self._end = end + 1
        self._count += 1
        task._tt_list = self
        task._tt_index = end
        if self.dispatched:
            self._counters.backlog += 1
        else:
            self._counters.pending += 1
        if _UNTRACKS_FROM_GC:
            self._untrack(task)

    def _untrack(self, task: TimerTask) -> None:
        """Spare the collector a task, unless there may be more to it than it looks."""
        if type(task) is TimerTask:
            _gc_untrack(task)
        elif self._slots_untracked:
            self._retrack()

    def _retrack(self) -> None:
        self._slots_untracked = False
        _gc_track(self._slots)

    def _grow_or_compact(self) -> None:
        """Have at least one place at the end."""
        used = self._end - self._head
        if self._compact_read or used > 2 * self._count + GROWTH_LIMIT:
            for _ in range(COMPACTION_STEP):
                if not self._compact_step():
                    break
        if self._end == self._capacity:
            grown: i32 = min(
                max(self._capacity >> 3, min(self._capacity, SMALL_CAPACITY)), GROWTH_LIMIT
            )
            more: list[TimerTask | None] = [None] * grown  # the collector may run in here
            places = self._slots
            places += more
            self._capacity += grown

    def _compact_step(self) -> bool:
        """One step of moving tasks towards the head; False when none is left to look at."""
        self._compact_read = max(self._compact_read, self._head)
        self._compact_write = max(self._compact_write, self._head)
        place, to = self._compact_read, self._compact_write
        if place == self._end:
            self._end = to
            self._compact_read = self._compact_write = 0
            return False
        task = self._slots[place]
        self._compact_read = place + 1
        if task is not None:
            self._slots[place] = None
            self._slots[to] = task
            task._tt_index = to
            self._compact_write = to + 1
        return True

    def remove(self, task: TimerTask) -> None:
        """Take out a task, if it is in this list. Locked; free of calls."""
        self._unlink(task, NEW)

    def _unlink(self, task: TimerTask, state: i32) -> bool:
        """Empty a task's place and give it a state; False if it is not here."""
        if task._tt_list is not self:
            return False
        place = task._tt_index
        if _HAS_STREAMING_STORE and self._end - place > STREAMING_STORE_DISTANCE:
            _clear_slot_streaming(self._slots, place, task)
        else:
            self._slots[place] = None
        self._count -= 1
        task._tt_list = None
        task._tt_index = state
        if self.dispatched:
            self._counters.backlog -= 1
        else:
            self._counters.pending -= 1
        return True

    def cancel(self, task: TimerTask) -> bool:
        """Take out a task for good; False if it is no longer here."""
        lock = self._lock
        if ATOMIC_SECTIONS and lock.can_skip_read_lock():
            return self._cancel(task)
        with lock._reader if lock._writer == 0 else lock.reading():  # a call less
            return self._cancel(task)

    def _cancel(self, task: TimerTask) -> bool:
        if not self._unlink(task, CANCELLED):
            return False
        # CPython lets nobody in when a Python function returns: the two are one section.
        self._counters.cancelled += 1
        if _UNTRACKS_FROM_GC and type(task) is TimerTask:
            _gc_track(task)
        if self._count == 0 and self._capacity > RETAINED_CAPACITY:
            self._release_slots()
        return True

    def _release_slots(self) -> None:
        """Free what an empty bucket has no need of."""
        fresh: list[TimerTask | None] = [None] * MIN_CAPACITY  # the collector may run in here
        if self._slots_untracked:
            _gc_untrack(fresh)
        if self._count == 0:
            self._slots = fresh
            self._head = self._end = self._compact_read = self._compact_write = 0
            self._capacity = MIN_CAPACITY

    def cancel_some(self, limit: int) -> list[TimerTask]:
        """Cancel up to ``limit`` tasks and return them; none when it is empty."""
        cancelled: list[TimerTask] = []
        with self._lock.reading():
            while len(cancelled) < limit and (task := self.first()) is not None:
                self._cancel(task)
                cancelled.append(task)
        return cancelled

    def move(self, task: TimerTask, target: "TimerTaskList") -> None:
        """Move a task, if it is in this list, to another one of the same timer. Locked."""
        if target._slots_untracked and not self._slots_untracked:
            target._retrack()
        while target._end == target._capacity:
            target._grow_or_compact()
        # Free of calls from here.
        if task._tt_list is not self:
            return
        place, end = task._tt_index, target._end
        self._slots[place] = None
        if place == self._head:
            self._head = place + 1
        self._count -= 1
        target._slots[end] = task
        target._end = end + 1
        target._count += 1
        task._tt_list = target
        task._tt_index = end
        if target.dispatched:
            self._counters.backlog += 1
            self._counters.pending -= 1

    def first(self) -> TimerTask | None:
        """The task that comes next, at the head; None when it is empty. Locked."""
        if self._count:
            while self._head < self._end:
                task = self._slots[self._head]
                if task is not None:
                    return task
                self._head += 1
        return None

    def mark_dispatched(self) -> None:
        """Count what is here as due and the executor's. Locked; may be repeated."""
        count: int = self._count
        if not self.dispatched:
            self.dispatched = True
            self._counters.pending -= count
            self._counters.backlog += count

    def take(self) -> TimerTask | None:
        """The next task to run, which is the caller's from now on; None when there is none."""
        lock = self._lock
        if ATOMIC_SECTIONS and lock.can_skip_read_lock():
            return self._take()
        task = None
        try:
            with lock._reader if lock._writer == 0 else lock.reading():  # a call less
                task = self._take()
            return task  # noqa: RET504  # it is needed below
        except BaseException:  # an interrupt: what nobody got must be had again
            if task is not None:
                self._put_back(task)
            raise

    def _take(self) -> TimerTask | None:
        task = None
        while self._head < self._end:  # `first`, without a call
            task = self._slots[self._head]
            if task is not None:
                break
            self._head += 1
        if task is None:
            return None
        self._slots[self._head] = None
        self._head += 1
        self._count -= 1
        task._tt_list = None
        task._tt_index = RUNNING
        self._counters.fired += 1
        self._counters.backlog -= 1
        return task

    def _put_back(self, task: TimerTask) -> None:
        with self._lock.reading():
            if task._tt_list is not None or task._tt_index != RUNNING:
                return  # somebody added it again meanwhile
            if self._head == 0:  # its place is gone
                self.add(task)
                self._counters.fired -= 1
                return
            self._head -= 1
            self._compact_read = self._compact_write = 0
            self._slots[self._head] = task
            self._count += 1
            task._tt_list = self
            task._tt_index = self._head
            self._counters.fired -= 1
            self._counters.backlog += 1

    def tasks(self) -> list[TimerTask]:
        """What is in it, in order. O(n). Locked."""
        return [task for task in self._slots if task is not None]

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken. Locked."""
        assert len(self.tasks()) == self._count, (self, self.tasks())
        assert 0 <= self._head <= self._end <= self._capacity == len(self._slots), self
        for place, task in enumerate(self._slots):
            if task is not None:
                assert self._head <= place < self._end, (self, place)
                assert (task._tt_list, task._tt_index) == (self, place), (self, place, task)
                assert task.deadline_ms <= self.expiration_ms or self.level, (self, task)

    def __repr__(self) -> str:
        dispatched = ", handed over" if self.dispatched else ""
        when = f"level {self.level}, {self.expiration_ms} ms"
        return f"<TimerTaskList {when}, {len(self)} tasks{dispatched}>"
