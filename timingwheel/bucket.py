"""TimerTaskList: a bucket, which holds the tasks due in one stretch of time.

A bucket is in one slot of one wheel and in the delay queue. When due, it is *detached*: removed
from both, whole, in O(1). Its tasks stay in it, so a task can still be cancelled while its bucket
waits to cascade or is dispatched.

An array holds the tasks in order of arrival, and each task knows its slot. A cancel clears the slot
and touches no other task: links to neighbours would triple the waits for main memory. When a slot
is needed and half of them are empty, a compaction pass moves the tasks towards the head, a step at
a time.

    slots     -  -  -  c  -  d  -  -  e  f  .  .        a, b were run; - was cancelled
                       head                 end   capacity

Lock: the timer's ReadWriteLock guards all buckets of that timer. "Locked" means: the caller holds
the lock, either side; the other methods take the read side.

Sections under the lock that change more than one field contain no calls. CPython runs signal
handlers and finalizers only at calls, loops and allocations: an interrupt, or a finalizer that adds
to this very bucket, comes before or after such a section. Interpreted, a number is an object, and
memory may be short: so a section computes the new numbers first, then makes the changes.

Past 400 lines: such sections cannot share code.
"""

from typing import Final

from _purgatory_cpython.atomicity import COMPILED
from _purgatory_cpython.mypyc_types import i32, i64
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC, gc_track, gc_untrack
from timingwheel._cpython.streaming_store import HAS_STREAMING_STORE, clear_slot_streaming
from timingwheel.rwlock import ReadWriteLock
from timingwheel.task import CANCELLED, TAKEN, TaskList, TimerTask

# A slot so far behind the end has left the nearer caches.
STREAMING_STORE_DISTANCE: Final = 4096

# Slots of a new bucket, which doubles up to SMALL_CAPACITY, then grows by an eighth, by
# GROWTH_LIMIT at most.
MIN_CAPACITY: Final = 16
SMALL_CAPACITY: Final = 256
GROWTH_LIMIT: Final = 4096
# An emptied bucket keeps up to this capacity for reuse.
RETAINED_CAPACITY: Final = 32
# Slots that a compaction pass reads whenever a slot is needed: more than are added meanwhile.
COMPACTION_STEP: Final = 4 * GROWTH_LIMIT

# Bound once: compiled code looks up no module's dict.
_UNTRACKS_FROM_GC: Final = UNTRACKS_FROM_GC
_gc_untrack: Final = gc_untrack
_gc_track: Final = gc_track
_HAS_STREAMING_STORE: Final = HAS_STREAMING_STORE
_clear_slot_streaming: Final = clear_slot_streaming


class TimerCounters:
    """Counts a timer's tasks. Guarded by the lock; read without it.

    `reaper_runs`: whether a reaper's thread holds the timer, and so all its tasks.
    """

    __slots__ = ("backlog", "cancelled", "fired", "reaper_runs", "waiting")

    def __init__(self) -> None:
        self.waiting: i64 = 0  # in the wheel
        self.backlog: i64 = 0  # dispatched to the executor, not started
        self.fired: i64 = 0
        self.cancelled: i64 = 0
        self.reaper_runs: bool = False

    def pending(self) -> i64:
        """Return how many tasks have not started. Exact under the lock."""
        return self.waiting + self.backlog


class TimerTaskList(TaskList):
    """A bucket. Amortized O(1): add, cancel and take.

    `level`: the wheel's. At level 0 all tasks are due at `expiration_ns`, else they cascade then.
    `has_rescheduled`: some task's deadline was moved beyond `expiration_ns`: all tasks cascade.
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
        "_refused",
        "_slots",
        "_slots_untracked",
        "dispatched",
        "expiration_ns",
        "has_rescheduled",
        "level",
        "turn",
    )

    def __init__(
        self, lock: ReadWriteLock, counters: TimerCounters, level: i32, expiration_ns: i64
    ) -> None:
        self._lock: Final = lock
        self._counters: Final = counters
        self._slots: list[TimerTask | None] = [None] * MIN_CAPACITY
        self._head: i32 = 0
        self._end: i32 = 0
        self._capacity: i32 = MIN_CAPACITY  # len(_slots), without a call
        self._count: i32 = 0
        # The next slots of the compaction pass; 0: none is under way.
        self._compact_read: i32 = 0
        self._compact_write: i32 = 0
        # Whether _slots is untracked: allowed while every task in it is.
        self._slots_untracked = _UNTRACKS_FROM_GC
        self.level: i32 = level
        self.expiration_ns: i64 = expiration_ns
        self.has_rescheduled: bool = False
        self.dispatched: bool = False  # to the executor, as a whole
        # How often a thread took over the bucket; the former thread then stops running its tasks.
        self.turn: i64 = 0
        self._refused = False  # by the executor; two threads may dispatch the bucket
        if _UNTRACKS_FROM_GC:
            _gc_untrack(self._slots)

    def __len__(self) -> int:
        return self._count

    def belongs_to(self, lock: ReadWriteLock) -> bool:
        """Return whether the bucket is of the timer that owns `lock`."""
        return self._lock is lock

    def is_full(self) -> bool:
        """Return whether the next `add` must make room. Locked."""
        return self._end == self._capacity

    def add(self, task: TimerTask) -> None:
        """Append a task that is in no list. Locked; atomic unless full."""
        while self._end == self._capacity:
            self._grow_or_compact()
        counters = self._counters
        waiting, backlog = counters.waiting, counters.backlog
        if self.dispatched:
            backlog += 1
        else:
            waiting += 1
        end = self._end
        new_end, count = end + 1, self._count + 1
        # Atomic from here.
        self._slots[end] = task
        self._end = new_end
        self._count = count
        task._tt_list = self
        task._tt_index = end
        counters.waiting = waiting
        counters.backlog = backlog
        if _UNTRACKS_FROM_GC:
            # A subclass may hold any object. So may a callback, and without a reaper the timer
            # itself may be garbage.
            if type(task) is TimerTask and (counters.reaper_runs or task._tt_is_stateless):
                _gc_untrack(task)
            elif self._slots_untracked:
                self._retrack()

    def _retrack(self) -> None:
        self._slots_untracked = False
        _gc_track(self._slots)

    def _grow_or_compact(self) -> None:
        used = self._end - self._head
        if self._compact_read or used > 2 * self._count + GROWTH_LIMIT:  # worth a pass
            for _ in range(COMPACTION_STEP):
                if not self._compact_step():
                    break
        if self._end == self._capacity:
            doubled = min(self._capacity, SMALL_CAPACITY)
            grown = min(max(self._capacity >> 3, doubled), GROWTH_LIMIT)
            more: list[TimerTask | None] = [None] * grown  # a collection may run here
            capacity = self._capacity + grown
            slots = self._slots
            slots += more
            self._capacity = capacity

    def _compact_step(self) -> bool:
        """Move at most one task towards the head; False at the end."""
        self._compact_read = max(self._compact_read, self._head)
        self._compact_write = max(self._compact_write, self._head)
        read, write = self._compact_read, self._compact_write
        if read == self._end:
            self._end = write
            self._compact_read = self._compact_write = 0
            return False
        task = self._slots[read]
        next_read, next_write = read + 1, write + 1
        self._compact_read = next_read
        if task is not None:
            self._slots[read] = None
            self._slots[write] = task
            task._tt_index = write
            self._compact_write = next_write
        return True

    def cancel(self, task: TimerTask) -> bool:
        if COMPILED and self._lock.enter_section():
            cancelled = self._cancel(task)
            self._lock.leave_section()
            return cancelled
        with self._lock.reading():
            return self._cancel(task)

    def _cancel(self, task: TimerTask) -> bool:
        if task._tt_list is not self:
            return False
        counters = self._counters
        waiting, backlog = counters.waiting, counters.backlog
        if self.dispatched:
            backlog -= 1
        else:
            waiting -= 1
        count, cancelled = self._count - 1, counters.cancelled + 1
        index = task._tt_index
        # Atomic from here.
        if _HAS_STREAMING_STORE and self._end - index > STREAMING_STORE_DISTANCE:
            _clear_slot_streaming(self._slots, index, task)
        else:
            self._slots[index] = None
        self._count = count
        task._tt_list = None
        task._tt_index = CANCELLED
        counters.waiting = waiting
        counters.backlog = backlog
        counters.cancelled = cancelled
        if _UNTRACKS_FROM_GC and type(task) is TimerTask:
            _gc_track(task)
        if self._count == 0:
            if self._capacity > RETAINED_CAPACITY:
                self._release_slots()
            else:  # all slots are empty: the next task goes to the first
                self._head = self._end = self._compact_read = self._compact_write = 0
        return True

    def _release_slots(self) -> None:
        try:
            fresh: list[TimerTask | None] = [None] * MIN_CAPACITY  # as above
        except MemoryError:
            return
        if self._slots_untracked:
            _gc_untrack(fresh)
        if self._count == 0:
            self._slots = fresh
            self._head = self._end = self._compact_read = self._compact_write = 0
            self._capacity = MIN_CAPACITY

    def cancel_some(self, limit: int) -> list[TimerTask]:
        """Cancel and return up to `limit` tasks; empty if none is left."""
        cancelled: list[TimerTask] = []
        try:
            with self._lock.reading():
                while len(cancelled) < limit and (task := self.first()) is not None:
                    cancelled.append(task)
                    self._cancel(task)
        except MemoryError:  # return the tasks already cancelled
            if cancelled and cancelled[-1]._tt_list is not None:
                cancelled.pop()
            if not cancelled:
                raise
        return cancelled

    def move(self, task: TimerTask, target: "TimerTaskList") -> None:
        """Move a task to another bucket of the same timer. Locked; either may be dispatched."""
        if target._slots_untracked and not self._slots_untracked:
            target._retrack()
        while target._end == target._capacity:
            target._grow_or_compact()
        if task._tt_list is not self:  # a finalizer cancelled it meanwhile
            return
        counters = self._counters
        waiting, backlog = counters.waiting, counters.backlog
        if self.dispatched != target.dispatched:
            moved: i64 = 1 if target.dispatched else -1
            waiting -= moved
            backlog += moved
        index, end = task._tt_index, target._end
        after, new_end = index + 1, end + 1
        count, new_count = self._count - 1, target._count + 1
        # Atomic from here.
        self._slots[index] = None
        if index == self._head:
            self._head = after
        self._count = count
        target._slots[end] = task
        target._end = new_end
        target._count = new_count
        task._tt_list = target
        task._tt_index = end
        counters.waiting = waiting
        counters.backlog = backlog

    def first(self) -> TimerTask | None:
        """Return the first task, or None; leaves it here. Locked."""
        if self._count:
            while self._head < self._end:
                task = self._slots[self._head]
                if task is not None:
                    return task
                self._head += 1
        return None

    def mark_dispatched(self) -> bool:
        """Count the tasks as dispatched to the executor. Locked; idempotent.

        False, and nothing done, if a deadline was moved beyond `expiration_ns`.
        """
        counters = self._counters
        count: int = self._count  # no conversion: interpreted, it would be a call
        waiting, backlog = counters.waiting - count, counters.backlog + count
        # Atomic from here.
        if self.has_rescheduled:
            return False
        if not self.dispatched:
            self.dispatched = True
            counters.waiting = waiting
            counters.backlog = backlog
        return True

    def take(self) -> TimerTask | None:
        """Remove and return the next task to run, or None."""
        if COMPILED and self._lock.enter_section():
            task = self._take()
            self._lock.leave_section()
            return task
        task = None
        try:
            with self._lock.reading():
                task = self._take()
            return task  # noqa: RET504  # it is needed below
        except BaseException:  # an interrupt: do not lose the task
            if task is not None:
                self._put_back(task)
            raise

    def _take(self) -> TimerTask | None:
        task = None
        # Inlined `first`: 30 instructions less a task (callgrind).
        while self._head < self._end:
            task = self._slots[self._head]
            if task is not None:
                break
            self._head += 1
        if task is None:
            return None
        counters = self._counters
        head = self._head
        after, count = head + 1, self._count - 1
        fired, backlog = counters.fired + 1, counters.backlog - 1
        # Atomic from here.
        self._slots[head] = None
        self._head = after
        self._count = count
        task._tt_is_running = True  # first: `done` reads these without the lock
        task._tt_list = None
        task._tt_index = TAKEN
        counters.fired = fired
        counters.backlog = backlog
        return task

    def _put_back(self, task: TimerTask) -> None:
        with self._lock.reading():
            if task._tt_list is not None or task._tt_index != TAKEN:
                return  # it was added again meanwhile
            counters = self._counters
            fired, backlog = counters.fired - 1, counters.backlog + 1
            if self._head == 0:  # the task's old slot is gone
                self.add(task)
                counters.fired = fired
                return
            head, count = self._head - 1, self._count + 1
            self._head = head
            self._compact_read = self._compact_write = 0
            self._slots[head] = task
            self._count = count
            task._tt_list = self
            task._tt_index = head
            counters.fired = fired
            counters.backlog = backlog

    def take_over(self) -> None:
        """Stop the running thread after its present task. One thread at a time."""
        self.turn += 1

    def refuse(self) -> list[TimerTask]:
        """Return the tasks, in order, to the first of the threads that were refused. O(n)."""
        with self._lock.reading():
            tasks = [] if self._refused else self.tasks()
            self._refused = True
            return tasks

    def tasks(self) -> list[TimerTask]:
        """Return the tasks, in order. O(n). Locked."""
        return [task for task in self._slots if task is not None]

    def some_tasks(self, limit: i32) -> list[TimerTask]:
        """Return those of the next `limit` slots, in order. Locked."""
        slots = self._slots[self._head : self._head + limit]
        return [task for task in slots if task is not None]

    def _check(self) -> None:
        """Assert every invariant. Locked."""
        assert len(self.tasks()) == self._count, (self, self.tasks())
        assert 0 <= self._head <= self._end <= self._capacity == len(self._slots), self
        for index, task in enumerate(self._slots):
            if task is not None:
                assert self._head <= index < self._end, (self, index)
                assert (task._tt_list, task._tt_index) == (self, index), (self, index, task)
                cascades = self.level or self.has_rescheduled
                assert task.deadline_ns <= self.expiration_ns or cascades, (self, task)

    def __repr__(self) -> str:
        dispatched = ", handed over" if self.dispatched else ""
        when = f"level {self.level}, {self.expiration_ns} ns"
        return f"<TimerTaskList {when}, {len(self)} tasks{dispatched}>"
