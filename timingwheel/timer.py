"""Timer: starts, advances and closes. Adding is in `timer_core`.

Interpreted, so its loops over batches release the GIL.

The program's threads add and cancel tasks under the read side of the lock (or of a lane's). The
thread that advances the clock (the reaper or the program's) detaches what is due under the write
side, in batches, so that no thread waits for a whole drain. The executor's threads run the tasks of
detached buckets under no lock.

Past 400 lines: mostly the public interface.
"""

import concurrent.futures
import contextlib
import sys
import threading
import time
from collections.abc import Callable
from contextvars import Context
from datetime import datetime, timedelta
from typing import ClassVar, Self, TypeVarTuple, Unpack

from _purgatory_cpython import at_exit, fork
from _purgatory_cpython.frames import callers_hold_lock
from _purgatory_cpython.real_time import real_seconds
from timingwheel.arguments import check_count, check_flag, check_name
from timingwheel.bucket import TimerTaskList
from timingwheel.clocks.clock import Clock
from timingwheel.clocks.clock_reader import clock_reader_for
from timingwheel.clocks.duration import delay_to_ns, moment_to_ns, tick_to_ns, to_ns
from timingwheel.errors import TimerClosed, TimerForked
from timingwheel.executors.executor import LockingExecutor, TaskExecutor
from timingwheel.executors.slow_tasks import ClockLeader, WorkerExecutor
from timingwheel.executors.user_pool import RefusedBuckets, executor_for
from timingwheel.lanes import MANY_LANES, Lanes
from timingwheel.reaper import ConditionWaiter, Reaper, Waiter
from timingwheel.recurring import Recurring
from timingwheel.runner import OnError, TaskRunner
from timingwheel.rwlock import is_owned
from timingwheel.stats import TimerStats, WheelLevel
from timingwheel.task import TimerTask, check_callback
from timingwheel.timer_core import TimerCore, add_task_at
from timingwheel.wheel_state import WheelState

_Args = TypeVarTuple("_Args")

JOIN_GRACE_S = 0.1  # beyond its timeout, `close` waits so long for a thread to end
# The measured ticks: docs/performance.md. Three levels reach 52 seconds, four 55 minutes.
DEFAULT_TICK_MS = 0.2
DEFAULT_WHEEL_SIZE = 64
MAX_WHEEL_SIZE = 2**24  # a level of 128 MB; the system may kill a process that takes much more


class Timer(TimerCore):
    """Runs tasks after a delay: a hierarchical timing wheel without ticking, after Kafka's.

    `tick_ms`: resolution; deadlines are rounded up to ticks, so nothing runs early. `wheel_size`:
    slots a level, 2 to 2**24; with more, long delays are moved less often. `clock`: returns
    milliseconds; default `monotonic_ms`, the system's monotonic clock, so setting the wall clock
    moves no task. If a clock of yours goes back, the timer goes on from its last reading.
    `executor`: None for the timer's own workers (one task at a time unless a task is slow), an
    `InlineExecutor`, or any `concurrent.futures.Executor` of this process, one thread of which runs
    the tasks of a tick in turn (from 1,024 on several); a worker runs tasks that the executor
    refuses. `max_pending`: how many tasks may be pending at once.
    `on_error(exc, task)`: called with each exception of a task; default: it is logged.

    Delays run out only when a thread advances the clock: `start` such a thread (`with Timer() as
    timer` starts and closes it), or call `advance_clock`. Any thread may call any method, tasks
    too. Raises TypeError and ValueError for bad arguments.
    """

    # Ten microseconds, less than a thread takes to wake up.
    LEAST_TICK_NS: ClassVar[int] = 10_000

    def __init__(
        self,
        name: str = "timer",
        *,
        tick_ms: float = DEFAULT_TICK_MS,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        clock: Clock | None = None,
        executor: concurrent.futures.Executor | TaskExecutor | None = None,
        max_pending: int | None = None,
        on_error: OnError | None = None,
    ) -> None:
        check_name(name)
        if on_error is not None:
            check_callback("on_error", on_error)
        tick_ns = tick_to_ns(tick_ms, self.LEAST_TICK_NS)
        wheel_size = check_count("wheel_size", wheel_size, 2, MAX_WHEEL_SIZE)
        limit = 0 if max_pending is None else check_count("max_pending", max_pending, 1)
        reader = clock_reader_for(clock)
        self._runner = TaskRunner(name, reader, on_error)
        lanes, now_ns = None, reader.now_ns()
        if MANY_LANES and max_pending is None:
            lanes = Lanes(tick_ns, wheel_size, now_ns)
        state = WheelState(tick_ns, wheel_size, now_ns) if lanes is None else lanes.first
        self._wheels = state if lanes is None else lanes
        counts = state.counters if lanes is None else lanes
        workers = f"{name}-executor"
        self._refused = RefusedBuckets(workers, counts, self._runner)
        task_executor = executor_for(executor, workers, counts, self._refused.run)
        super().__init__(name, reader, state, lanes, task_executor, limit)
        self._cancels_pending = False  # set once, by the first `close` that cancels
        # Guarded by _lock.
        self._reaper: Reaper | ClockLeader | None = None
        self._waiters: tuple[Waiter, ...] = ()
        self._was_advanced = False  # set once, by any thread that advances the clock
        self._clock_reader.on_advance(self._wake)
        fork.register(self)
        at_exit.register_locks(self)

    def __bool__(self) -> bool:
        return True

    def schedule_at(
        self,
        when: float | datetime,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        context: Context | None = None,
    ) -> TimerTask:
        """Run `callback(*args)` at a moment; at once if past.

        `when`: a reading of the timer's clock in seconds, or an aware datetime, of which the
        distance from now counts: a later change of the wall clock moves no task. Raises as
        `schedule`, and ValueError for a naive datetime.
        """
        # Before the clock: a pause between the two readings makes the task late, not early. By
        # attribute: freezegun replaces it.
        wall_ns = time.time_ns()
        now_ns = self._clock_reader.now_ns()
        deadline_ns = moment_to_ns(when, now_ns, wall_ns)
        if not isinstance(when, datetime):
            deadline_ns = self._clock_reader.time_of_reading(deadline_ns)
        task = TimerTask(0, callback, *args, context=context)
        add_task_at(self, task, deadline_ns, now_ns, limited=True)
        return task

    def every(
        self,
        interval: float | timedelta,
        callback: Callable[[Unpack[_Args]], object],
        *args: *_Args,
        first: float | timedelta | None = None,
        context: Context | None = None,
    ) -> Recurring:
        """Run `callback(*args)` at a fixed rate, until it is cancelled or the timer closes.

        `interval`, `first`: seconds or a timedelta; the first run comes after `first`, by default
        one interval. Missed runs are skipped: see `Recurring`. `max_pending` refuses the first wait
        only. Raises as `schedule`, and ValueError for an interval of 0.
        """
        check_callback("callback", callback)
        interval_ns = delay_to_ns("interval", interval)
        if interval_ns == 0:
            raise ValueError(f"interval is {interval!r}; expected more than 0 seconds")
        first_ns = interval_ns if first is None else delay_to_ns("first", first)
        recurring = Recurring(self, interval_ns, callback, args, context)
        now_ns = self._clock_reader.now_ns()
        add_task_at(self, recurring, now_ns + first_ns, now_ns, limited=True)
        return recurring

    def stats(self) -> TimerStats:
        """Return the present numbers. Raises TimerForked."""
        self._lock.check_usable()
        states = self._wheels.all()
        # Read without a call in between: no other thread runs meanwhile, but without the GIL.
        counts = [
            (each.waiting, each.backlog, each.fired, each.cancelled)
            for each in [state.counters for state in states]
        ]
        waiting, backlog, fired, cancelled = map(sum, zip(*counts, strict=True))
        return TimerStats(
            name=self.name,
            pending=waiting + backlog,
            fired=fired,
            cancelled=cancelled,
            executor_backlog=backlog,
            buckets_occupied=self._wheels.occupied(),
            cascades=sum(state.cascades for state in states),
            lateness=self._runner.lateness.read(),
        )

    def levels(self) -> tuple[WheelLevel, ...]:
        """Return the wheel's levels, lowest first; O(1) in the number of tasks.

        Tasks moving between two levels are in no slot. Raises TimerForked.
        """
        return self._wheels.levels(self._clock_reader.now_ns())

    def first_tasks(self, limit: int = 10) -> list[TimerTask]:
        """Return the tasks that are due first, in order of deadline; O(1) in the number of tasks.

        Looks at about a thousand tasks: may miss some where one slot has more. Raises TypeError,
        ValueError.
        """
        return self._wheels.first_tasks(check_count("limit", limit, 0))

    def advance_clock(self, timeout: float | timedelta = 0.0) -> bool:
        """Run due tasks; if none is due, wait up to `timeout` seconds.

        Returns True if a bucket came due, if only to cascade. Waits in real time. Ends early when a
        move of a `ManualClock` makes something due, or a closed timer has nothing left.
        """
        timeout_ns = to_ns(timeout, "timeout")
        self._lock.check_usable()
        self._was_advanced = True
        if self._drain():
            return True
        if not timeout_ns:
            return False
        waiter = ConditionWaiter()
        try:
            self.change_waiters(add=waiter)
            return self._drain_before(real_seconds() + float(timeout_ns) / 1e9, waiter)
        finally:
            self.change_waiters(remove=waiter)

    def _drain_before(self, deadline_s: float, waiter: Waiter) -> bool:
        while not self._drain():
            left = deadline_s - real_seconds()
            if left <= 0 or self.finished():
                return False
            delay = self.max_sleep()
            waiter.wait(left if delay is None else min(left, delay))
        return True

    def delay_to_next(self) -> float | None:
        """Return the seconds until the next occupied bucket is due, or None.

        0.0 if one is due. A bucket of a higher level may only cascade then. Raises TimerForked.
        """
        self._lock.check_usable()
        if self._wheels.has_undelivered():
            return 0.0
        first = self._wheels.next_occupied()
        return None if first is None else self._clock_reader.seconds_until(first.expiration_ns)

    def max_sleep(self) -> float | None:
        """Return how many seconds the reaper may sleep; None (or a `ManualClock`): until woken."""
        delay = self._clock_reader.real_sleep(self.delay_to_next())
        left = self._time_left() if self._closed else None
        return delay if left is None else min(left, left if delay is None else delay)

    def _drain(self, batches: int = sys.maxsize) -> bool:
        self._executor.resume()
        self._deliver_all()  # left by an interrupt
        worked = False
        # Read once: tasks that come due meanwhile must not keep this call busy forever.
        now_ns = self._clock_reader.now_ns()
        while batches > 0 and self._wheels.drain_batch(now_ns):
            worked = True
            batches -= 1
            self._deliver_all()
        if self._closed and self._time_left() == 0:
            self._cancel_pending()  # without a reaper, no other thread does
        return worked

    def _deliver_all(self) -> None:
        dispatch_queue = self._wheels.dispatch_queue
        while dispatch_queue:
            try:
                bucket = dispatch_queue[0]
            except IndexError:  # another thread delivered the bucket
                break
            self._deliver(bucket)
        self._executor.flush()

    def _deliver(self, bucket: TimerTaskList) -> None:
        """Give the executor a bucket. Idempotent."""
        try:
            self._executor.execute(self._runner.run, bucket)
        except Exception as error:  # noqa: BLE001  # a pool that was shut down, or takes no more
            self._refused.run(bucket, error)
        with contextlib.suppress(ValueError):  # another thread delivered it as well
            self._wheels.dispatch_queue.remove(bucket)

    def _wake(self) -> None:
        try:
            self._set_wake_owed(False)
            for waiter in self._waiters:
                waiter.wake()
        except BaseException:  # an interrupt: the next call wakes the rest
            self._set_wake_owed(True)
            raise

    def _set_wake_owed(self, owed: bool) -> None:
        for state in self._wheels.all():
            state.queue.wake_owed = owed

    def _set_reaper_runs(self, runs: bool) -> None:
        for state in self._wheels.all():
            state.counters.reaper_runs = runs

    def change_waiters(self, add: Waiter | None = None, remove: Waiter | None = None) -> None:
        """Add or remove a waiter to wake when an earlier bucket becomes the first."""

        def change() -> None:
            kept = tuple(waiter for waiter in self._waiters if waiter is not remove)
            self._waiters = kept if add is None else (*kept, add)

        self._lock.call_reading(change)

    def start(self, waiter: Waiter | None = None) -> None:
        """Start the reaper, the thread that advances the clock. Idempotent.

        `waiter`: what the thread sleeps on; default: a condition. Raises TypeError for another
        object, TimerClosed, and RuntimeError if the system has no thread left.
        """
        if waiter is not None:
            check_callback("waiter.wait", getattr(waiter, "wait", None))
            check_callback("waiter.wake", getattr(waiter, "wake", None))
        self._lock.call_reading(lambda: self._start(waiter))

    def _start(self, waiter: Waiter | None) -> None:
        if self._closed:
            raise TimerClosed(f"timer {self.name!r} is closed")
        if self._reaper is not None:
            return
        reaper, waiter = self._new_reaper(waiter)
        self.change_waiters(add=waiter)
        try:
            reaper.start()
        finally:
            if reaper.started:
                self._reaper = reaper
                self._set_reaper_runs(True)
            else:
                self.change_waiters(remove=waiter)

    def _new_reaper(self, waiter: Waiter | None) -> tuple[Reaper | ClockLeader, Waiter]:
        name = f"{self.name}-reaper"
        if waiter is not None:
            return Reaper(self, waiter, name), waiter
        waiter = ConditionWaiter()
        if isinstance(self._executor, WorkerExecutor):
            return ClockLeader(self._executor, self, waiter, name), waiter
        return Reaper(self, waiter, name), waiter

    def close(
        self,
        wait: bool = True,
        cancel_pending: bool = True,
        timeout: float | timedelta | None = None,
    ) -> None:
        """Refuse new tasks and end the threads. May be called again, and from a task.

        `cancel_pending`: cancel pending tasks; False: leave the reaper running until the last task
        has fired, or `timeout` seconds have passed, then cancel the rest. (Without a reaper, run
        what is due; the first `advance_clock` after `timeout` cancels the rest.) What came due
        before is finished, within `timeout`. `wait`: return when all that has happened, or after
        `timeout`. A signal handler or finalizer that interrupts a call of this timer in the same
        thread does not wait: see `holds_lock`. Does nothing in a forked child. Raises TypeError and
        ValueError for bad arguments.
        """
        check_flag("wait", wait)
        check_flag("cancel_pending", cancel_pending)
        is_inside = self.holds_lock()
        wait = wait and not is_inside
        if timeout is not None:
            self._runner.close_deadline = real_seconds() + float(to_ns(timeout, "timeout")) / 1e9
        at_exit.free_all()
        try:
            self._lock.call_reading(self._set_closed)
            for state in self._wheels.all():  # adding threads hold its lock
                state.lock.call_reading(self._set_closed)
        except TimerForked:
            return
        if cancel_pending:
            self._cancels_pending = True
            self._cancel_pending()
        self._wake()
        if self._reaper is None:
            if not is_inside:  # else the next `advance_clock` runs what is due
                self._drain()
        elif wait:
            self._reaper.join(self._join_timeout())
            if self._time_left() == 0:
                self._cancel_pending()  # the reaper may be stuck in an inline task
        if self._reaper is None or self._reaper.ended() or cancel_pending:
            self._close_executors(wait)

    def holds_lock(self) -> bool:
        """Return whether the calling thread has a lock that the timer's threads need.

        If so, the caller is a signal handler or a finalizer in the middle of another call of its
        thread, and would wait for those threads for ever. An operation's lock counts, too.
        """
        return (
            any(
                state.lock.is_inside() or is_owned(state.queue._lock)
                for state in self._wheels.all()
            )
            or is_owned(self._runner.lateness._lock)
            or self._refused.holds_lock()
            or (isinstance(self._executor, LockingExecutor) and self._executor.holds_lock())
            or callers_hold_lock()
        )

    def _set_closed(self) -> None:
        self._closed = True

    @property
    def running(self) -> bool:
        """Whether a reaper thread advances the clock now."""
        reaper = self._reaper
        return reaper is not None and not reaper.ended()

    @property
    def driven(self) -> bool:
        """Whether the timer was started or a thread advanced its clock."""
        return self._reaper is not None or self._was_advanced

    def finished(self) -> bool:
        """Return whether the timer is closed with nothing, or no time, left.

        Without a reaper, `advance_clock` cancels the rest first.
        """
        if not self._closed:
            return False
        if self._reaper is not None and self._time_left() == 0:
            return True
        # A call that `close` interrupted may still add a task; `shut_down` cancels the task.
        in_wheels = not self._cancels_pending and any(
            state.counters.waiting for state in self._wheels.all()
        )
        return not (in_wheels or self._wheels.has_undelivered())

    def shut_down(self) -> None:
        """Cancel what is left and end the executor: the reaper's last call."""
        try:
            self._cancel_pending()
            self._deliver_all()
        finally:
            self._set_reaper_runs(False)
            self._close_executors(wait=False)

    def _close_executors(self, wait: bool) -> None:
        self._executor.close(wait=wait, timeout=self._join_timeout() if wait else 0)
        self._refused.close(wait=wait, timeout=self._join_timeout() if wait else 0)

    def _time_left(self) -> float | None:
        close_deadline = self._runner.close_deadline
        if close_deadline is None:
            return None
        return min(max(0.0, close_deadline - real_seconds()), threading.TIMEOUT_MAX)

    def _join_timeout(self) -> float | None:
        left = self._time_left()
        return None if left is None else min(left + JOIN_GRACE_S, threading.TIMEOUT_MAX)

    def _cancel_pending(self) -> None:
        while tasks := self._wheels.cancel_some():
            self._runner.close(tasks)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    def after_fork(self) -> None:
        """Let all calls of a forked child's copy raise."""
        error = TimerForked(f"timer {self.name!r} was made before fork; make one in this process")
        for state in self._wheels.all():
            state.lock.poison(error)

    def __del__(self) -> None:
        # For tasks that the program holds: to be tracked again.
        with contextlib.suppress(AttributeError, TimerForked):  # half made, or in a forked child
            while self._wheels.cancel_some():
                pass

    def _check(self) -> None:
        self._wheels._check()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "started" if self._reaper else "not started"
        return f"<Timer {self.name!r}, {state}, {len(self)} pending>"


def runs_on(timer: Timer, waiter: Waiter) -> bool:
    """Return whether a timer's reaper thread sleeps on `waiter` now."""
    return timer.running and waiter in timer._waiters


def advance_some(timer: Timer, batches: int) -> bool:
    """Advance as `Timer.advance_clock`, by at most so many batches; True if more is due.

    So a million tasks of one moment do not stop a thread that has other work. Raises TimerForked.
    """
    timer._lock.check_usable()
    timer._was_advanced = True
    return timer._drain(batches) and timer.delay_to_next() == 0.0
