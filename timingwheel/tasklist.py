"""TimerTaskList: a bucket, the tasks that share one stretch of time.

A bucket lives in one slot of one wheel for one stretch of time, and is in the delay queue for as
long. When it comes due it is *detached*: taken out of both, whole, in O(1). What is in it stays in
it, so a task can still be cancelled while its bucket waits to cascade or lies with the executor.

The tasks are linked to each other: a list object beside them would cost memory, and the cycle
collector walks through list objects.

Lock: the timer's ReadWriteLock guards all buckets of that timer. Methods that say "locked" leave
the locking to the caller, either side; the others take the read side.

Sections under the lock that change more than one field are free of calls on purpose: CPython lets
signal handlers and the finalizers of collected objects in only at calls, loops and allocations, so
a KeyboardInterrupt, or a finalizer that adds to this very bucket, finds it before such a section or
after it, never inside. (Other threads are kept out by the lock alone.)
"""

from typing import Final

from timingwheel.collector import HIDES, show
from timingwheel.native import i32, i64
from timingwheel.rwlock import ReadWriteLock
from timingwheel.steps import STEPS
from timingwheel.task import CANCELLED, NEW, RUNNING, TimerTask

# Bound once: compiled, that saves a look into the module's dict for each task.
_HIDES: Final = HIDES
_show: Final = show


class Tally:
    """A timer's counts, guarded by its lock; plain reads from outside are exact enough to show."""

    __slots__ = ("backlog", "cancelled", "fired", "pending")

    def __init__(self) -> None:
        self.pending: i64 = 0  # in the wheel
        self.backlog: i64 = 0  # with the executor, not started
        self.fired: i64 = 0
        self.cancelled: i64 = 0


class TimerTaskList:
    """A bucket: O(1) to add to, to cancel from and to take from. See the module.

    ``level``: 0 if all of it is due at ``expiration_ms``, else the wheel's, to be cascaded then.
    """

    __slots__ = (
        "_count",
        "_first",
        "_last",
        "_lock",
        "_tally",
        "expiration_ms",
        "handed",
        "level",
    )

    def __init__(self, lock: ReadWriteLock, tally: Tally, level: i32, expiration_ms: i64) -> None:
        self._lock = lock
        self._tally = tally
        self._first: TimerTask | None = None
        self._last: TimerTask | None = None
        self._count: i64 = 0
        self.level: i32 = level
        self.expiration_ms: i64 = expiration_ms
        self.handed = False  # to the executor

    def __len__(self) -> int:
        return self._count

    def belongs_to(self, lock: ReadWriteLock) -> bool:
        """Whether this is a bucket of the timer that has ``lock``."""
        return self._lock is lock

    def add(self, task: TimerTask) -> None:
        """Append a task that is in no list. Locked; free of calls."""
        last = self._last
        if last is None:
            self._first = task
        else:
            last._tt_next = task
            task._tt_previous = last
        self._last = task
        self._count += 1
        task._tt_list = self
        task._tt_state = NEW
        if self.handed:
            self._tally.backlog += 1
        else:
            self._tally.pending += 1

    def remove(self, task: TimerTask) -> None:
        """Take out a task that is in this list. Locked; free of calls."""
        before = task._tt_previous
        after = task._tt_next
        if before is None:
            self._first = after
        else:
            before._tt_next = after
            task._tt_previous = None
        if after is None:
            self._last = before
        else:
            after._tt_previous = before
            task._tt_next = None
        self._count -= 1
        task._tt_list = None
        if self.handed:
            self._tally.backlog -= 1
        else:
            self._tally.pending -= 1

    def cancel(self, task: TimerTask) -> bool:
        """Take out a task for good; False if it is no longer here."""
        lock = self._lock
        if STEPS and lock.idle():
            return self._cancel(task)
        with lock.reading():
            return self._cancel(task)

    def _cancel(self, task: TimerTask) -> bool:
        if task._tt_list is not self:
            return False
        self.remove(task)
        # CPython lets nobody in when a Python function returns: the two sides are one section.
        task._tt_state = CANCELLED
        self._tally.cancelled += 1
        if _HIDES and type(task) is TimerTask:
            _show(task)
        return True

    def cancel_some(self, limit: int) -> list[TimerTask]:
        """Cancel up to ``limit`` tasks and return them; none when it is empty."""
        cancelled: list[TimerTask] = []
        with self._lock.reading():
            while len(cancelled) < limit and (task := self._first) is not None:
                self._cancel(task)
                cancelled.append(task)
        return cancelled

    def move_first(self, target: "TimerTaskList") -> None:
        """Move the first task to another list of the same timer. Locked; free of calls."""
        task = self._first
        assert task is not None, self
        after = task._tt_next
        self._first = after
        if after is None:
            self._last = None
        else:
            after._tt_previous = None
            task._tt_next = None
        self._count -= 1
        last = target._last
        if last is None:
            target._first = task
        else:
            last._tt_next = task
            task._tt_previous = last
        target._last = task
        target._count += 1
        task._tt_list = target
        if target.handed:
            self._tally.backlog += 1
            self._tally.pending -= 1

    def first(self) -> TimerTask | None:
        """The task that comes next; None when it is empty. Locked."""
        return self._first

    def hand_over(self) -> None:
        """Count what is here as due and the executor's. Locked; may be repeated."""
        count = self._count
        if not self.handed:
            self.handed = True
            self._tally.pending -= count
            self._tally.backlog += count

    def take(self) -> TimerTask | None:
        """The next task to run, which is the caller's from now on; None when there is none."""
        if STEPS and self._lock.idle():
            return self._take()
        task = None
        try:
            with self._lock.reading():
                task = self._take()
            return task  # noqa: RET504  # it is needed below
        except BaseException:  # an interrupt: what nobody got must be had again
            if task is not None:
                self._put_back(task)
            raise

    def _take(self) -> TimerTask | None:
        task = self._first
        if task is not None:
            after = task._tt_next
            self._first = after
            if after is None:
                self._last = None
            else:
                after._tt_previous = None
                task._tt_next = None
            self._count -= 1
            task._tt_list = None
            task._tt_state = RUNNING
            self._tally.fired += 1
            self._tally.backlog -= 1
        return task

    def _put_back(self, task: TimerTask) -> None:
        with self._lock.reading():
            if task._tt_list is not None or task._tt_state != RUNNING:
                return  # somebody added it again meanwhile
            first = self._first
            if first is None:
                self._last = task
            else:
                first._tt_previous = task
                task._tt_next = first
            self._first = task
            self._count += 1
            task._tt_list = self
            self._tally.fired -= 1
            self._tally.backlog += 1

    def tasks(self) -> list[TimerTask]:
        """What is in it, in order. O(n). Locked."""
        found: list[TimerTask] = []
        task = self._first
        while task is not None:
            found.append(task)
            task = task._tt_next
        return found

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken. Locked."""
        tasks = self.tasks()
        assert len(tasks) == self._count, (self, len(tasks), self._count)
        before = None
        for task in tasks:
            assert task._tt_list is self, (self, task, task._tt_list)
            assert task._tt_previous is before, (self, task, before)
            assert task.deadline_ms <= self.expiration_ms or self.level, (self, task)
            before = task
        assert self._last is before, (self, self._last, before)

    def __repr__(self) -> str:
        handed = ", handed over" if self.handed else ""
        when = f"level {self.level}, {self.expiration_ms} ms"
        return f"<TimerTaskList {when}, {len(self)} tasks{handed}>"
