"""TimerTaskList: a bucket, the tasks that share one stretch of time.

A bucket lives in one slot of one wheel for one stretch of time, and is in the delay queue for as
long. When it comes due it is *detached*: taken out of both, whole, in O(1). What is in it stays in
it, so a task can still be cancelled while its bucket waits to cascade or lies with the executor.

Lock: the timer's ReadWriteLock guards all buckets of that timer. Methods that say "locked" leave
the locking to the caller, either side; the others take the read side.

Sections under the lock that change more than one field are free of calls on purpose: CPython lets
signal handlers and the finalizers of collected objects in only at calls, loops and allocations, so
a KeyboardInterrupt, or a finalizer that adds to this very bucket, finds it before such a section or
after it, never inside. (Other threads are kept out by the lock alone.)
"""

from timingwheel.rwlock import ReadWriteLock
from timingwheel.task import CANCELLED, NEW, RUNNING, TimerTask


class Tally:
    """A timer's counts, guarded by its lock; plain reads from outside are exact enough to show."""

    __slots__ = ("backlog", "cancelled", "fired", "pending")

    def __init__(self) -> None:
        self.pending = 0  # in the wheel
        self.backlog = 0  # with the executor, not started
        self.fired = 0
        self.cancelled = 0


class TimerTaskList:
    """A bucket: O(1) to add to, to cancel from and to take from. See the module.

    ``level``: 0 if all of it is due at ``expiration_ms``, else the wheel's, to be cascaded then.
    """

    __slots__ = ("_end", "_head", "_lock", "_tally", "_tasks", "expiration_ms", "handed", "level")

    def __init__(self, lock: ReadWriteLock, tally: Tally, level: int, expiration_ms: int) -> None:
        self._lock = lock
        self._tally = tally
        self.level = level
        self.expiration_ms = expiration_ms
        self.handed = False  # to the executor
        self._tasks: list[TimerTask] = []
        self._head = 0  # those before it were taken, or moved to another list
        self._end = 0  # length of _tasks, to be had without a call

    def __len__(self) -> int:
        return self._end - self._head

    def belongs_to(self, lock: ReadWriteLock) -> bool:
        """Whether this is a bucket of the timer that has ``lock``."""
        return self._lock is lock

    def add(self, task: TimerTask) -> None:
        """Append a task that is in no list. Locked."""
        tasks = self._tasks
        one = (task,)
        # From here on no call; `append` would be one.
        tasks += one
        task._tt_index = self._end
        self._end += 1
        task._tt_list = self
        task._tt_state = NEW
        if self.handed:
            self._tally.backlog += 1
        else:
            self._tally.pending += 1

    def remove(self, task: TimerTask) -> None:
        """Take out a task that is in this list; the last one fills the gap. Locked."""
        tasks = self._tasks
        last = tasks[-1]
        last._tt_index = index = task._tt_index
        tasks[index] = last
        del tasks[-1]
        self._end -= 1
        task._tt_list = None
        if self.handed:
            self._tally.backlog -= 1
        else:
            self._tally.pending -= 1

    def cancel(self, task: TimerTask) -> bool:
        """Take out a task for good; False if it is no longer here."""
        with self._lock.reading():
            if task._tt_list is not self:
                return False
            self.remove(task)
            task._tt_state = CANCELLED
            self._tally.cancelled += 1
        return True

    def cancel_some(self, limit: int) -> list[TimerTask]:
        """Cancel up to ``limit`` tasks and return them; none when it is empty."""
        with self._lock.reading():
            tasks = self._tasks[max(self._head, len(self._tasks) - limit) :]
            for task in reversed(tasks):
                self.cancel(task)
        return tasks

    def move_first(self, target: "TimerTaskList") -> None:
        """Move the first task to another list of the same timer. Locked."""
        task = self._tasks[self._head]
        target.add(task)
        # CPython lets nobody in when a Python function returns: the two sides are one section.
        self._tasks[self._head] = _GONE
        self._head += 1
        self._tally.pending -= 1

    def first(self) -> TimerTask:
        """The task that comes next. Locked; IndexError when empty."""
        return self._tasks[self._head]

    def hand_over(self) -> None:
        """Count what is here as due and the executor's. Locked; may be repeated."""
        count = len(self)
        if not self.handed:
            self.handed = True
            self._tally.pending -= count
            self._tally.backlog += count

    def take(self) -> TimerTask | None:
        """The next task to run, which is the caller's from now on; None when there is none."""
        task = None
        try:
            with self._lock.reading():
                tasks = self._tasks
                head = self._head
                if head == self._end:
                    return None
                task = tasks[head]
                tasks[head] = _GONE
                self._head = head + 1
                task._tt_list = None
                task._tt_state = RUNNING
                self._tally.fired += 1
                self._tally.backlog -= 1
            return task
        except BaseException:  # an interrupt: what nobody got must be had again
            if task is not None:
                self._put_back(task)
            raise

    def _put_back(self, task: TimerTask) -> None:
        with self._lock.reading():
            if task._tt_list is not None or task._tt_state != RUNNING:
                return  # somebody added it again meanwhile
            self._head -= 1
            self._tasks[self._head] = task
            task._tt_index = self._head
            task._tt_list = self
            self._tally.fired -= 1
            self._tally.backlog += 1

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken. Locked."""
        assert len(self._tasks) == self._end, (self, len(self._tasks), self._end)
        assert all(task is _GONE for task in self._tasks[: self._head]), self
        for index, task in enumerate(self._tasks[self._head :], self._head):
            assert task._tt_list is self, (self, task, task._tt_list)
            assert task._tt_index == index, (self, task, index)
            assert task.deadline_ms <= self.expiration_ms or self.level, (self, task)

    def __repr__(self) -> str:
        handed = ", handed over" if self.handed else ""
        when = f"level {self.level}, {self.expiration_ms} ms"
        return f"<TimerTaskList {when}, {len(self)} tasks{handed}>"


# Fills the places before _head, so that what was taken is released at once.
_GONE = TimerTask(0, lambda: None)
