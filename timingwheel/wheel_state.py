"""WheelState: all that a timer holds, in the wheels, under way between them, and on its way out.

The whole of it is guarded by the timer's lock, which is made here: users place tasks under the
read side, whoever drains detaches under the write side. Methods say "locked" where the caller must
hold it; either side will do unless they say which.

Every step that moves tasks leaves them in one list or the other and may be repeated, so that an
interrupt between two steps loses nothing: the next portion goes on where that one stopped.
"""

from collections import deque
from typing import Final

from timingwheel._cpython.atomicity import COMPILED
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC
from timingwheel._cpython.mypyc_types import i64
from timingwheel.bucket import TimerCounters, TimerTaskList
from timingwheel.delayqueue import DelayQueue
from timingwheel.errors import TimerError
from timingwheel.rwlock import ReadWriteLock
from timingwheel.stats import WheelLevel
from timingwheel.task import TimerTask
from timingwheel.wheel import TimingWheel

# Tasks moved under one hold of the write side: about a tenth of a millisecond.
DRAIN_BATCH: Final = 1024 if COMPILED else 128

_UNTRACKS_FROM_GC: Final = UNTRACKS_FROM_GC


class WheelState:
    """See the module. ``now_ms``: the clock's reading when the timer is made."""

    def __init__(self, tick_ms: i64, wheel_size: i64, now_ms: i64) -> None:
        self.lock = ReadWriteLock()
        self.wheel = TimingWheel(tick_ms, wheel_size, now_ms)
        self.queue = DelayQueue()
        self.counters = TimerCounters()
        self.cascades: i64 = 0
        # A bucket came to be the first, and those who sleep were not told yet.
        self.wake_owed = False
        # Due and detached, its tasks not all moved yet.
        self._draining: TimerTaskList | None = None
        # Due tick -> bucket, of what came out of higher levels when it was overdue already; they
        # are in the queue, and in no slot.
        self._overdue: dict[int, TimerTaskList] = {}
        # Handed over, not yet given to the executor. Filled under the lock, emptied without it.
        self.dispatch_queue: deque[TimerTaskList] = deque()

    def has_undelivered(self) -> bool:
        """Whether something came due that is not with the executor yet."""
        return self._draining is not None or bool(self.dispatch_queue)

    def try_place_fast(self, task: TimerTask, deadline_ms: i64) -> bool:
        """Put a task that is in no list into a bucket that is there; False if that does not do.

        Free of calls (compiled: one step): for a lock that is idle, or locked.
        """
        wheel = self.wheel
        due_ms = deadline_ms if wheel.tick_ms == 1 else wheel.due_ms(deadline_ms)
        if task._tt_list is not None or due_ms <= wheel.now_ms:
            return False
        while due_ms >= wheel.limit_ms:
            above = wheel.overflow
            if above is None:
                return False
            wheel = above
        bucket = wheel.slots[due_ms // wheel.tick_ms % wheel.size]
        if bucket is None:
            return False
        end = bucket._end
        if end == bucket._capacity:
            return False
        task.deadline_ms = deadline_ms
        # bucket.add, without a call
        bucket._slots[end] = task
        bucket._end = end + 1
        bucket._count += 1
        task._tt_list = bucket
        task._tt_index = end
        self.counters.pending += 1
        if _UNTRACKS_FROM_GC:
            bucket._untrack(task)
        return True

    def place(self, task: TimerTask, deadline_ms: i64) -> TimerTaskList | None:
        """Put a task, pending or not, where its deadline belongs. Locked.

        Returns the bucket in the outbox that it is in if it is due already, to be delivered.
        """
        due_ms = self.wheel.due_ms(deadline_ms)
        if due_ms <= self.wheel.now_ms:
            return self.place_due(task, deadline_ms, due_ms)
        self._check_owner(task)
        self._put(task, self._bucket_for(due_ms), deadline_ms)
        return None

    def place_due(self, task: TimerTask, deadline_ms: i64, due_ms: i64) -> TimerTaskList:
        """Put a task, pending or not, into a bucket of its own in the outbox. Locked."""
        self._check_owner(task)
        bucket = self._new_dispatched_bucket(due_ms)
        self._put(task, bucket, deadline_ms)
        return bucket

    def _put(self, task: TimerTask, bucket: TimerTaskList, deadline_ms: i64) -> None:
        """Put a task, pending or not, into a bucket."""
        if task._tt_list is not None:
            self._move(task, bucket, deadline_ms)
            return
        task.deadline_ms = deadline_ms
        bucket.add(task)

    def _move(self, task: TimerTask, bucket: TimerTaskList, deadline_ms: i64) -> None:
        old, old_deadline_ms = task._tt_list, task.deadline_ms
        assert old is not None, task
        try:
            old.remove(task)
            task.deadline_ms = deadline_ms
            bucket.add(task)
        except BaseException:  # an interrupt: it was pending and stays so
            if task._tt_list is None:
                task.deadline_ms = old_deadline_ms
                old.add(task)
            raise

    def _check_owner(self, task: TimerTask) -> None:
        bucket = task._tt_list
        if bucket is not None and not bucket.belongs_to(self.lock):
            raise TimerError(f"{task!r} is pending in another timer; cancel it there first")

    def _bucket_for(self, due_ms: i64) -> TimerTaskList:
        """The bucket for a due time to come. Locked."""
        wheel = self.wheel.level_for(due_ms)
        slot = due_ms // wheel.tick_ms % wheel.size
        bucket = wheel.slots[slot]
        if bucket is None:
            expiration_ms = due_ms - due_ms % wheel.tick_ms
            bucket = TimerTaskList(self.lock, self.counters, wheel.level, expiration_ms)
            # In this order: a bucket in the queue but in no slot is merely empty.
            if self.queue.offer(bucket):
                self.wake_owed = True
            wheel.slots[slot] = bucket
        return bucket

    def _new_dispatched_bucket(self, due_ms: i64) -> TimerTaskList:
        """A new bucket on its way to the executor, for what is due already."""
        bucket = TimerTaskList(self.lock, self.counters, 0, due_ms)
        bucket.mark_dispatched()
        self.dispatch_queue.append(bucket)
        return bucket

    def drain_batch(self, now_ms: i64) -> bool:
        """Detach, hand over and cascade some of what is due at ``now_ms``; False if nothing is."""
        self.next_occupied()  # a bucket whose tasks were all cancelled does not come due
        budget: i64 = DRAIN_BATCH
        try:
            with self.lock:
                owed = self.wake_owed
                while budget > 0 and (bucket := self._detach_next(now_ms)) is not None:
                    budget -= self._process_bucket(bucket, budget, now_ms)
                # Whoever drains looks at the queue again before sleeping; only others are owed.
                self.wake_owed = owed
        except BaseException:
            self.lock.release_write()
            raise
        return budget < DRAIN_BATCH

    def _detach_next(self, now_ms: i64) -> TimerTaskList | None:
        """The bucket to deal with, out of wheel and queue; moves the clock. Write side."""
        if self._draining is None:
            first = self.queue.first()
            if first is None or first.expiration_ms > now_ms:
                self.wheel.advance(now_ms)
                return None
            self._draining = first
        self._unlink_bucket(self._draining)
        # Not further than its expiration: what cascades from it must still come in order.
        self.wheel.advance(self._draining.expiration_ms)
        return self._draining

    def _unlink_bucket(self, bucket: TimerTaskList) -> None:
        self.wheel.detach(bucket)
        if self._overdue.get(bucket.expiration_ms) is bucket:
            del self._overdue[bucket.expiration_ms]
        self.queue.remove(bucket)

    def _process_bucket(self, bucket: TimerTaskList, budget: i64, now_ms: i64) -> i64:
        """Hand a bucket over whole, or cascade up to ``budget`` of it; the cost. Write side."""
        if bucket.level == 0:
            bucket.mark_dispatched()
            if bucket._count:
                self.dispatch_queue.append(bucket)
            self._draining = None
            return 1
        moved = self._cascade(bucket, min(budget, len(bucket)), now_ms)
        if not bucket._count:
            self.cascades += 1
            self._draining = None
        return moved + 1

    def _cascade(self, bucket: TimerTaskList, count: i64, now_ms: i64) -> i64:
        wheel, overdue = self.wheel, self._overdue
        whole_ticks = wheel.tick_ms == 1
        for _ in range(count):
            task = bucket.first()
            if task is None:  # a finalizer cancelled some
                break
            due_ms = task.deadline_ms if whole_ticks else wheel.due_ms(task.deadline_ms)
            if due_ms > now_ms:
                bucket.move(task, self._bucket_for(due_ms))
                continue
            # Past the levels between: after a pause each would move it once more.
            target = overdue.get(due_ms)
            if target is None or target.dispatched:
                target = self._overdue_bucket(due_ms)
            bucket.move(task, target)
        return count

    def _overdue_bucket(self, due_ms: i64) -> TimerTaskList:
        bucket = TimerTaskList(self.lock, self.counters, 0, due_ms)
        self.queue.offer(bucket)
        self._overdue[due_ms] = bucket
        return bucket

    def next_occupied(self) -> TimerTaskList | None:
        """The first bucket that has tasks; empty ones before it are dropped."""
        while (first := self.queue.first()) is not None:
            if len(first):
                return first
            with self.lock.reading():
                if not len(first):
                    self._unlink_bucket(first)
        return None

    def cancel_some(self) -> list[TimerTask]:
        """Cancel a portion of what is pending and return it; none when nothing is left."""
        with self.lock.reading():
            while (bucket := self._first()) is not None:
                if tasks := bucket.cancel_some(DRAIN_BATCH):
                    return tasks
                self._unlink_bucket(bucket)
                self._draining = None
        return []

    def _first(self) -> TimerTaskList | None:
        return self.queue.first() if self._draining is None else self._draining

    def occupied(self) -> tuple[int, ...]:
        """How many buckets of each level have tasks, lowest level first."""
        levels = [bucket.level for bucket in self.queue.snapshot() if len(bucket)]
        return tuple(levels.count(level) for level in range(len(self.wheel.levels())))

    def levels(self, now_ms: int) -> tuple[WheelLevel, ...]:
        """How many tasks each slot of each level holds, lowest level first."""
        with self.lock.reading():
            return tuple(
                WheelLevel(
                    tick_ms=wheel.tick_ms,
                    slots=tuple(0 if bucket is None else len(bucket) for bucket in wheel.slots),
                    hand=now_ms // wheel.tick_ms % wheel.size,
                )
                for wheel in self.wheel.levels()
            )

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken."""
        with self.lock.reading():
            self.wheel._check()
            queued = self.queue.snapshot()
            slots = [b for w in self.wheel.levels() for b in w.slots if b is not None]
            assert set(slots) <= set(queued), (slots, queued)
            held = set(queued) if self._draining is None else {*queued, self._draining}
            pending = sum(len(bucket) for bucket in held if not bucket.dispatched)
            assert self.counters.pending == pending, (self.counters.pending, held)
            for bucket in held | set(self.dispatch_queue):
                bucket._check()
            assert all(bucket.dispatched for bucket in self.dispatch_queue), self.dispatch_queue
