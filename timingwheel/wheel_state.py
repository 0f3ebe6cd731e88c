"""WheelState: the pending, cascading and dispatched tasks of a timer or lane.

Its lock guards everything below, see `timingwheel.timer`. "Locked" means: the caller holds either
side, unless stated.

Each step leaves every task in one list and may be repeated: after an interrupt the next batch
continues.
"""

from collections import deque
from operator import attrgetter
from typing import Final, cast

from _purgatory_cpython.atomicity import COMPILED
from _purgatory_cpython.mypyc_types import i32, i64
from timingwheel.bucket import TimerCounters, TimerTaskList
from timingwheel.errors import TimerError
from timingwheel.rwlock import ReadWriteLock
from timingwheel.stats import WheelLevel
from timingwheel.task import TimerTask
from timingwheel.wheel import END_OF_TIME_NS, DelayQueue, TimingWheel

# Tasks moved while the write side is held once: about a tenth of a millisecond.
DRAIN_BATCH: Final = 1024 if COMPILED else 128
# Tasks that `first_tasks` looks at.
MAX_SEEN: Final = 1024


class WheelState:
    """See the module. `now_ns`: a reading of the clock, not after the first due time.

    `dispatch_queue`, `lock`: given by `Lanes`.
    """

    def __init__(
        self,
        tick_ns: i64,
        wheel_size: i64,
        now_ns: i64,
        dispatch_queue: deque[TimerTaskList] | None = None,
        lock: ReadWriteLock | None = None,
    ) -> None:
        self.lock: Final = ReadWriteLock() if lock is None else lock
        self.counters: Final = TimerCounters()
        self.queue: Final = DelayQueue(self.lock, self.counters)
        self.wheel: Final = TimingWheel(tick_ns, wheel_size, now_ns, self.queue)
        self.cascades: i64 = 0
        # Due and detached; some of its tasks are still to be moved.
        self._draining: TimerTaskList | None = None
        # Not given to the executor yet. Filled under the lock, emptied without it.
        self.dispatch_queue: deque[TimerTaskList] = (
            deque() if dispatch_queue is None else dispatch_queue
        )

    def all(self) -> "list[WheelState]":
        """Return this state alone; see `Lanes`."""
        return [self]

    def has_undelivered(self) -> bool:
        """Return whether the executor lacks something that came due."""
        return self._draining is not None or bool(self.dispatch_queue)

    def next_due_ns(self) -> i64:
        """Return when the first bucket comes due; END_OF_TIME_NS without one."""
        first = self._first()
        return END_OF_TIME_NS if first is None else first.expiration_ns

    def try_place_fast(self, task: TimerTask, deadline_ns: i64) -> bool:
        """Add a new task to an existing bucket; False if impossible. Locked, or in a section."""
        wheel = self.wheel
        due_ns = wheel.due_ns(deadline_ns)
        if task._tt_list is not None or due_ns <= wheel.now_ns:
            return False
        while due_ns >= wheel.limit_ns:
            above = wheel.overflow
            if above is None:
                return False
            wheel = above
        bucket = wheel.slots[due_ns // wheel.tick_ns % wheel.size]
        if bucket is None or bucket.is_full():
            return False
        bucket.add(task)
        task.deadline_ns = deadline_ns  # after it: see `_put`
        return True

    def place(self, task: TimerTask, deadline_ns: i64, is_new: bool = True) -> TimerTaskList | None:
        """Put a task, pending or not, into the bucket of its deadline. Locked.

        Returns the bucket in the dispatch queue, for delivery, if the task is due already.
        `is_new`: not pending; else does nothing once a finalizer or signal handler has taken it.
        """
        if task._tt_list is not None:
            self._check_owner(task)
            if self.try_reschedule_in_place(task, deadline_ns):
                return None
        due_ns = self.wheel.due_ns(deadline_ns)
        if due_ns <= self.wheel.now_ns:
            return self.place_due(task, deadline_ns, due_ns, is_new)
        self._put(task, self.wheel.bucket_for(due_ns), deadline_ns, is_new)
        return None

    def try_reschedule_in_place(self, task: TimerTask, deadline_ns: i64) -> bool:
        """Give a pending task a deadline without moving it; False if its bucket comes too late.

        The task is placed anew when the bucket comes: heartbeats are rescheduled far more often
        than they expire. Locked, or in a section.
        """
        bucket = bucket_of(task)
        if (
            bucket is None
            or bucket.dispatched
            or not bucket.belongs_to(self.lock)
            or deadline_ns <= bucket.expiration_ns - self.wheel.tick_ns
        ):
            return False
        if bucket.level == 0 and deadline_ns > bucket.expiration_ns:
            bucket.has_rescheduled = True
        task.deadline_ns = deadline_ns
        return True

    def place_due(
        self, task: TimerTask, deadline_ns: i64, due_ns: i64, is_new: bool = True
    ) -> TimerTaskList:
        """Put a task into the dispatch queue, as `place` does into the wheel. Locked."""
        self._check_owner(task)
        bucket = self._new_dispatched_bucket(due_ns)
        self._put(task, bucket, deadline_ns, is_new)
        return bucket

    def _put(self, task: TimerTask, bucket: TimerTaskList, deadline_ns: i64, is_new: bool) -> None:
        old = bucket_of(task)
        if old is not None:
            old.move(task, bucket)
        elif is_new:
            bucket.add(task)
        else:
            return
        # Assign the deadline last, right after the return, where no interrupt comes: a recurring
        # task that was not added counts its next run from the former deadline.
        task.deadline_ns = deadline_ns

    def _check_owner(self, task: TimerTask) -> None:
        bucket = bucket_of(task)
        if bucket is not None and not bucket.belongs_to(self.lock):
            raise TimerError(f"{task!r} is pending in another timer; cancel the task there first")

    def _new_dispatched_bucket(self, due_ns: i64) -> TimerTaskList:
        bucket = TimerTaskList(self.lock, self.counters, 0, due_ns)
        bucket.mark_dispatched()
        self.dispatch_queue.append(bucket)
        return bucket

    def drain_batch(self, now_ns: i64) -> bool:
        """Detach, dispatch and cascade a batch; False if nothing is due. Takes the write side."""
        self.lock.check_outside()  # first: a lock of the interrupted call stays
        self.next_occupied()  # drops empty buckets: they do not come due
        budget: i64 = DRAIN_BATCH
        try:
            with self.lock:
                owed = self.queue.wake_owed
                while True:  # without a condition: see `_purgatory_cpython.locks`
                    if budget <= 0 or (bucket := self._detach_next(now_ns)) is None:
                        break
                    budget -= self._process_bucket(bucket, budget, now_ns)
                # This thread needs no wake-up.
                self.queue.wake_owed = owed
        except BaseException:
            self.lock.release_write()
            raise
        return budget < DRAIN_BATCH

    def _detach_next(self, now_ns: i64) -> TimerTaskList | None:
        """Detach and return the next due bucket; moves the wheel. Write side."""
        if self._draining is None:
            first = self.queue.first()
            if first is None or first.expiration_ns > now_ns:
                self.wheel.advance(now_ns)
                return None
            self._draining = first
        self._unlink_bucket(self._draining)
        # Not further: tasks that cascade from the bucket must come due in order.
        self.wheel.advance(self._draining.expiration_ns)
        return self._draining

    def _unlink_bucket(self, bucket: TimerTaskList) -> None:
        self.wheel.detach(bucket)
        self.queue.remove(bucket)

    def _process_bucket(self, bucket: TimerTaskList, budget: i64, now_ns: i64) -> i64:
        """Dispatch a bucket, or cascade up to `budget` of it; the cost."""
        if bucket.level == 0 and bucket.mark_dispatched():
            if len(bucket):
                self.dispatch_queue.append(bucket)
            self._draining = None
            return 1
        moved = self.wheel.cascade(bucket, min(budget, len(bucket)), now_ns)
        if not len(bucket):
            self.cascades += 1
            self._draining = None
        return moved + 1

    def next_occupied(self) -> TimerTaskList | None:
        """Return the first bucket that has tasks; drop empty buckets before it."""
        if self.lock.is_inside():  # the call that was interrupted may be about to fill one
            occupied = [bucket for bucket in self.queue.snapshot() if len(bucket)]
            return occupied[0] if occupied else None
        while (first := self.queue.first()) is not None:
            if len(first):
                return first
            with self.lock.reading():
                if not len(first):
                    self._unlink_bucket(first)
        return None

    def cancel_some(self) -> list[TimerTask]:
        """Cancel and return a batch of pending tasks; empty if none is left."""
        if self.lock.is_inside():  # as in `next_occupied`
            return self._cancel_some_inside()
        with self.lock.reading():
            while True:  # as above
                if (bucket := self._first()) is None:
                    return []
                if tasks := bucket.cancel_some(DRAIN_BATCH):
                    return tasks
                self._unlink_bucket(bucket)
                self._draining = None

    def _cancel_some_inside(self) -> list[TimerTask]:
        for bucket in [self._draining, *self.queue.snapshot()]:
            if bucket is not None and (tasks := bucket.cancel_some(DRAIN_BATCH)):
                return tasks
        return []

    def _first(self) -> TimerTaskList | None:
        return self.queue.first() if self._draining is None else self._draining

    def occupied(self) -> tuple[int, ...]:
        """See `TimerStats.buckets_occupied`."""
        levels = [bucket.level for bucket in self.queue.snapshot() if len(bucket)]
        return tuple(levels.count(level) for level in range(len(self.wheel.levels())))

    def levels(self, now_ns: int) -> tuple[WheelLevel, ...]:
        """Return a snapshot of all levels, lowest first."""
        with self.lock.reading():
            return tuple(
                WheelLevel(
                    tick_ns=wheel.tick_ns,
                    slots=tuple(0 if bucket is None else len(bucket) for bucket in wheel.slots),
                    hand=now_ns // wheel.tick_ns % wheel.size,
                )
                for wheel in self.wheel.levels()
            )

    def first_tasks(self, limit: int) -> list[TimerTask]:
        """See `Timer.first_tasks`. O(MAX_SEEN)."""
        found: list[TimerTask] = []
        left: i32 = MAX_SEEN
        with self.lock.reading():
            for bucket in self.queue.snapshot():
                # Rounded up to the tick, no deadline is earlier.
                earliest_ns = bucket.expiration_ns - self.wheel.tick_ns
                is_full = len(found) == limit
                if is_full and (not found or earliest_ns >= found[-1].deadline_ns):
                    break
                found += bucket.some_tasks(left)
                left -= min(left, len(bucket))
                found = sorted(found, key=attrgetter("deadline_ns"))[:limit]
        return found

    def _check(self) -> None:
        with self.lock.reading():
            self.wheel._check()
            queued = self.queue.snapshot()
            slots = [b for w in self.wheel.levels() for b in w.slots if b is not None]
            assert set(slots) <= set(queued), (slots, queued)
            held = set(queued) if self._draining is None else {*queued, self._draining}
            waiting = sum(len(bucket) for bucket in held if not bucket.dispatched)
            assert self.counters.waiting == waiting, (self.counters.waiting, held)
            delivering = {  # a copy: other threads take buckets without a lock
                bucket for bucket in self.dispatch_queue.copy() if bucket.belongs_to(self.lock)
            }
            for bucket in held | delivering:
                bucket._check()
            assert all(bucket.dispatched for bucket in delivering), delivering


def bucket_of(task: TimerTask) -> TimerTaskList | None:
    """Return the bucket that holds a task, typed (see `TaskList`); None if it is not pending."""
    return cast("TimerTaskList | None", task._tt_list)
