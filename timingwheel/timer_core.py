"""TimerCore: the hot half of a Timer, which adds tasks.

It is apart from the other half because it is compiled. `Timer` is interpreted and does what is
rare: it starts, closes, and drains batch by batch. Any thread.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, overload

from timingwheel._cpython.atomicity import ATOMIC_SECTIONS
from timingwheel._cpython.mypyc_types import i64, mypyc_attr
from timingwheel._cpython.yield_gil import yield_gil
from timingwheel.bucket import TimerTaskList
from timingwheel.clock_reader import ClockReader
from timingwheel.errors import TimerClosed, TimerFull
from timingwheel.executor import TaskExecutor
from timingwheel.task import TimerTask
from timingwheel.wheel_state import WheelState, bucket_of

# Tasks that `schedule_many` adds for one reading of the clock.
ADD_BATCH = 256


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerCore:
    """Base of `Timer`: schedules and adds tasks. `max_pending`: 0 for any number."""

    def __init__(
        self,
        name: str,
        reader: ClockReader,
        state: WheelState,
        executor: TaskExecutor,
        max_pending: i64,
    ) -> None:
        self.name = name
        self._clock_reader = reader
        self._wheel_state = state
        self._lock = state.lock
        self._executor = executor
        self._max_pending: i64 = max_pending
        self._closed = False  # guarded by _lock, set once

    @overload
    def schedule(self, delay: float, callback: Callable[..., object], *args: Any) -> TimerTask: ...
    @overload
    def schedule(
        self, delay: float | timedelta, callback: Callable[..., object], *args: Any
    ) -> TimerTask: ...
    def schedule(self, delay: Any, callback: Any, *args: Any) -> TimerTask:
        """Run `callback(*args)` after `delay`: seconds, or a timedelta; 0 runs it at once.

        Returns the task, already added. Raises TypeError and ValueError for bad arguments,
        TimerFull, TimerClosed.
        """
        # Two calls: a compiled call without star arguments builds no tuple.
        task = TimerTask(delay, callback, *args) if args else TimerTask(delay, callback)
        add_task(self, task)
        return task

    def add(self, task: TimerTask) -> TimerTask:
        """Start a task's delay, and return the task.

        A pending task is re-armed: it moves, stays one and runs once. So does one that came due
        and has not started. Raises TypeError for what is no task, TimerFull, TimerClosed, and
        TimerError for a task that is pending in another timer.
        """
        if not isinstance(task, TimerTask):
            raise TypeError(f"task is {task!r}; expected a TimerTask")
        add_task(self, task)
        return task

    def schedule_many(
        self, delays: Iterable[float | timedelta], callback: Callable[..., object], *args: Any
    ) -> list[TimerTask]:
        """Schedule `callback(*args)` once after each of many delays, all counted from about now.

        Returns the tasks in order. Raises what `schedule` raises, after cancelling what was added.
        """
        tasks = [TimerTask(delay, callback, *args) for delay in delays]
        try:
            for start in range(0, len(tasks), ADD_BATCH):
                _add_batch(self, tasks[start : start + ADD_BATCH])
                yield_gil()
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        return tasks

    def __len__(self) -> int:
        """Return how many tasks are pending. O(1)."""
        return self._wheel_state.counters.pending

    def _deliver(self, bucket: TimerTaskList) -> None:
        """Give the executor a bucket of the dispatch queue; see `Timer`."""
        raise NotImplementedError

    def _wake(self) -> None:
        """Wake the threads that sleep until a bucket is due; see `Timer`."""
        raise NotImplementedError


# Functions, because compiled methods of a class that may be subclassed are looked up at each call.


def add_task(timer: TimerCore, task: TimerTask) -> None:
    """Start a task's delay, as `Timer.add` does if no subclass overrides it."""
    if task.delay_ms == 0:
        _add_due(timer, task)
    else:
        _add(timer, task, timer._clock_reader.now_rounded_up_ms() + task.delay_ms)


def _add_batch(timer: TimerCore, tasks: list[TimerTask]) -> None:
    now_ms = timer._clock_reader.now_rounded_up_ms()
    for task in tasks:
        if task.delay_ms == 0:
            _add_due(timer, task)
        else:
            _add(timer, task, now_ms + task.delay_ms)


def _add(timer: TimerCore, task: TimerTask, deadline_ms: i64) -> None:
    state = timer._wheel_state
    lock = timer._lock
    # Where sections are atomic, all of this is one.
    if (
        ATOMIC_SECTIONS
        and lock.can_skip_read_lock()
        and not (timer._max_pending or timer._closed)
        and state.try_place_fast(task, deadline_ms)
    ):
        return
    due = None
    try:
        with lock.reading():
            if timer._max_pending or timer._closed:
                _check_open(timer, task)
            if not state.try_place_fast(task, deadline_ms):
                due = state.place(task, deadline_ms)
    finally:
        if state.queue.wake_owed:
            timer._wake()
    if due is not None:  # the clock passed its due time meanwhile
        timer._deliver(due)
        timer._executor.flush()


def _add_due(timer: TimerCore, task: TimerTask) -> None:
    now_ms: i64 = timer._clock_reader.now_ms()
    with timer._lock.reading():
        _check_open(timer, task)
        due = timer._wheel_state.place_due(task, now_ms, now_ms)
    timer._deliver(due)
    timer._executor.flush()


def _check_open(timer: TimerCore, task: TimerTask) -> None:
    """Raise TimerClosed or TimerFull if the task cannot be added. Locked."""
    if timer._closed:
        raise TimerClosed(f"timer {timer.name!r} is closed")
    limit = timer._max_pending
    # A task with delay 0 never waits, so the limit is not for it.
    if limit and task.delay_ms and timer._wheel_state.counters.pending >= limit:
        bucket = bucket_of(task)
        if bucket is None or bucket.dispatched:
            raise TimerFull(f"timer {timer.name!r} has max_pending={limit} tasks")
