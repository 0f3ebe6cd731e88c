"""TimerCore: the hot half of a Timer, which adds tasks.

Compiled; `Timer` does the rare work. Any thread.
"""

from collections.abc import Callable, Iterable
from contextvars import Context
from datetime import timedelta
from typing import Any, Final, TypeVarTuple, Unpack, overload

from _purgatory_cpython.atomicity import COMPILED
from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from _purgatory_cpython.threads import yield_gil
from timingwheel.bucket import TimerTaskList
from timingwheel.clocks.clock_reader import ClockReader
from timingwheel.clocks.duration import MAX_NOW_NS, to_ns
from timingwheel.errors import TimerClosed, TimerError, TimerFull
from timingwheel.executors.executor import TaskExecutor
from timingwheel.lanes import MANY_LANES, Lanes
from timingwheel.task import TimerTask, check_initialized
from timingwheel.wheel_state import WheelState

_Args = TypeVarTuple("_Args")

# Tasks of `schedule_many` at one reading of the clock.
ADD_BATCH = 256


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerCore:
    """Base of `Timer`: schedules and adds tasks. `max_pending`: 0 for any number."""

    def __init__(
        self,
        name: str,
        reader: ClockReader,
        state: WheelState,
        lanes: Lanes | None,
        executor: TaskExecutor,
        max_pending: i64,
    ) -> None:
        self.name = name
        # Final: without the interpreter lock, only final fields are read without counting a
        # reference, for which threads wait in turn.
        self._clock_reader: Final = reader
        self._wheel_state: Final = state  # of all tasks, or of the first lane
        self._lanes: Final = lanes  # None where threads have none
        self._lock: Final = state.lock  # guards the timer's own fields, too
        self._executor: Final = executor
        self._max_pending: i64 = max_pending
        self._closed = False  # set once, under the lock of each lane

    @overload
    def schedule(
        self,
        delay: float,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> TimerTask: ...
    @overload
    def schedule(
        self,
        delay: float | timedelta,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> TimerTask: ...
    def schedule(
        self,
        delay: Any,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Any = None,
    ) -> TimerTask:
        """Run `callback(*args)` after `delay`: seconds, or a timedelta; 0 runs it at once.

        `context`: a `contextvars.Context`; the callback runs in a copy. Returns the task, already
        added. Raises TypeError and ValueError for bad arguments, TimerFull, TimerClosed.
        """
        # Two calls: a compiled call without star arguments builds no tuple.
        if args or context is not None:
            task = TimerTask(delay, callback, *args, context=context)
        else:
            task = TimerTask(delay, callback)
        add_task(self, task)
        return task

    def add(self, task: TimerTask) -> TimerTask:
        """Start a task's delay, and return the task.

        Reschedules a pending task, even if due. Raises TypeError for an object that is not a
        TimerTask, TimerFull, TimerClosed, and TimerError for a task pending in another timer.
        """
        if not isinstance(task, TimerTask):
            raise TypeError(f"task is {task!r}; expected a TimerTask")
        try:
            add_task(self, task)
        except AttributeError:
            check_initialized(task)
            raise
        return task

    def schedule_many(
        self,
        delays: Iterable[float | timedelta],
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
    ) -> list[TimerTask]:
        """Schedule `callback(*args)` once after each of many delays, counted from about now.

        Returns the tasks in order. If `schedule` would raise, cancels the added tasks and raises
        the same error.
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

    def reschedule(self, task: TimerTask, delay: float | timedelta) -> bool:
        """Let the delay of a pending task count anew from now; True if it was pending.

        A later deadline costs little more than reading the clock. Does nothing for a task that
        runs, has run, was cancelled or was never added. Raises TypeError and ValueError for bad
        arguments, TimerError for a task pending in another timer, TimerClosed.
        """
        if not isinstance(task, TimerTask):
            raise TypeError(f"task is {task!r}; expected a TimerTask")
        try:
            return _reschedule(self, task, to_ns(delay), False)
        except AttributeError:
            check_initialized(task)
            raise

    def __len__(self) -> int:
        if MANY_LANES and self._lanes is not None:
            return self._lanes.pending
        return self._wheel_state.counters.pending()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has tasks and threads")

    def _deliver(self, bucket: TimerTaskList) -> None:
        raise NotImplementedError

    def _wake(self) -> None:
        raise NotImplementedError


# Functions: compiled, methods of a class that may be subclassed are looked up at each call.


def add_task(timer: TimerCore, task: TimerTask) -> None:
    """Start a task's delay, as `Timer.add` does if no subclass overrides it."""
    if task.delay_ns == 0:
        now_ns = timer._clock_reader.now_ns()
        _add_due(timer, task, now_ns, now_ns, limited=True)
    else:
        _add(timer, task, _now_ns(timer) + task.delay_ns, limited=True)


def add_task_at(
    timer: TimerCore, task: TimerTask, deadline_ns: i64, now_ns: i64, limited: bool
) -> None:
    """Add a task for a reading of the clock, perhaps past. `limited`: by `max_pending`."""
    task.delay_ns = max(0, deadline_ns - now_ns)
    if deadline_ns <= now_ns:
        _add_due(timer, task, deadline_ns, now_ns, limited)
    else:
        _add(timer, task, deadline_ns, limited)


def sleep_to_first_bucket(timer: TimerCore) -> float | None:
    """Return how many seconds a driver may sleep: as `Timer.max_sleep`, but empty buckets count.

    So tasks that are cancelled in time do not wake the driver.
    """
    lanes, state = timer._lanes, timer._wheel_state
    if state.has_undelivered() if lanes is None else lanes.has_undelivered():
        return 0.0
    first = state.queue.first() if lanes is None else lanes.first_bucket()
    if first is None:
        return None
    reader = timer._clock_reader
    return reader.real_sleep(reader.seconds_until(first.expiration_ns))


def _now_ns(timer: TimerCore) -> i64:
    now_ns = timer._clock_reader.now_ns()
    if now_ns > MAX_NOW_NS:
        raise ValueError(f"the clock reads {now_ns} ns; expected at most {MAX_NOW_NS}")
    return now_ns


def _add_batch(timer: TimerCore, tasks: list[TimerTask]) -> None:
    now_ns = _now_ns(timer)
    for task in tasks:
        if task.delay_ns == 0:
            _add_due(timer, task, now_ns, now_ns, limited=True)
        else:
            _add(timer, task, now_ns + task.delay_ns, limited=True)


def _lane_of(timer: TimerCore, task: TimerTask) -> WheelState:
    if MANY_LANES and timer._lanes is not None:
        return timer._lanes.of(task)
    return timer._wheel_state


def _add(timer: TimerCore, task: TimerTask, deadline_ns: i64, limited: bool) -> None:
    state = _lane_of(timer, task)
    if COMPILED and state.lock.enter_section():  # atomic
        placed = not (timer._max_pending or timer._closed) and (
            state.try_place_fast(task, deadline_ns)
            or (task._tt_list is not None and state.try_reschedule_in_place(task, deadline_ns))
        )
        state.lock.leave_section()
        if placed:
            return
    due = None
    try:
        with state.lock.reading():
            if timer._max_pending or timer._closed:
                _check_open(timer, task, limited)
            if not state.try_place_fast(task, deadline_ns):
                due = state.place(task, deadline_ns, task._tt_list is None)
        if state.queue.wake_owed:
            timer._wake()
        if due is not None:  # the clock passed its due time meanwhile
            _dispatch(timer, due)
    except TimerError:
        raise
    except BaseException:  # an interrupt: the task may be there, and the first, or dispatched
        timer._wake()
        raise


def _add_due(
    timer: TimerCore, task: TimerTask, deadline_ns: i64, now_ns: i64, limited: bool
) -> None:
    state = _lane_of(timer, task)
    try:
        with state.lock.reading():
            _check_open(timer, task, limited)
            due = state.place_due(task, deadline_ns, now_ns, task._tt_list is None)
        _dispatch(timer, due)
    except TimerError:
        raise
    except BaseException:  # as in `_add`
        timer._wake()
        raise


def extend_task(timer: TimerCore, task: TimerTask, delay_ns: int) -> bool:
    """Do as `Timer.reschedule`, but keep `deadline_ns - delay_ns`, the moment of adding."""
    return _reschedule(timer, task, delay_ns, True)


def now_ns(timer: TimerCore) -> int:
    """Read a timer's clock."""
    return timer._clock_reader.now_ns()


def _reschedule(timer: TimerCore, task: TimerTask, delay_ns: i64, keeps_start: bool) -> bool:
    deadline_ns = _now_ns(timer) + delay_ns
    state = _lane_of(timer, task)
    if COMPILED and delay_ns != 0 and state.lock.enter_section():  # atomic
        start_ns = task.deadline_ns - task.delay_ns
        moved = not timer._closed and state.try_reschedule_in_place(task, deadline_ns)
        if moved:
            task.delay_ns = deadline_ns - start_ns if keeps_start else delay_ns
        state.lock.leave_section()
        if moved:
            return True
    try:
        return _reschedule_locked(timer, state, task, deadline_ns, delay_ns, keeps_start)
    except TimerError:
        raise
    except BaseException:  # as in `_add`
        timer._wake()
        raise


def _reschedule_locked(
    timer: TimerCore,
    state: WheelState,
    task: TimerTask,
    deadline_ns: i64,
    delay_ns: i64,
    keeps_start: bool,
) -> bool:
    due = None
    with state.lock.reading():
        if task._tt_list is None:
            return False
        if timer._closed:
            raise TimerClosed(f"timer {timer.name!r} is closed")
        start_ns = task.deadline_ns - task.delay_ns
        if delay_ns == 0:
            due = state.place_due(task, deadline_ns, deadline_ns, False)
        else:
            due = state.place(task, deadline_ns, False)
        task.delay_ns = deadline_ns - start_ns if keeps_start else delay_ns
    if state.queue.wake_owed:
        timer._wake()
    if due is not None:
        _dispatch(timer, due)
    return True


def _dispatch(timer: TimerCore, due: TimerTaskList) -> None:
    timer._deliver(due)
    timer._executor.flush()


def _check_open(timer: TimerCore, task: TimerTask, limited: bool) -> None:
    """Raise TimerClosed or TimerFull. Under the lock of the task's lane."""
    if timer._closed:
        raise TimerClosed(f"timer {timer.name!r} is closed")
    limit = timer._max_pending
    # A pending task only moves. With a limit there is one lane.
    is_new = task._tt_list is None
    if limit and limited and is_new and timer._wheel_state.counters.pending() >= limit:
        raise TimerFull(f"timer {timer.name!r} has max_pending={limit} tasks")
