"""TaskRunner: runs the tasks of dispatched buckets, and handles their exceptions.

Several threads may run one bucket. Any thread.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from _purgatory_cpython.mypyc_types import i64
from _purgatory_cpython.real_time import real_seconds
from _purgatory_cpython.threads import yield_gil
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC, gc_track
from timingwheel.bucket import TimerTaskList
from timingwheel.clocks.clock_reader import ClockReader
from timingwheel.stats import LatenessHistogram
from timingwheel.task import TAKEN, TimerTask

log: logging.Logger = logging.getLogger(__name__)

OnError = Callable[[BaseException, TimerTask], object]

# Tasks run, and their lateness counted, with one reading of the clock.
TASKS_PER_CLOCK_READ: Final = 256

# Bound once: see `timingwheel.bucket`.
_UNTRACKS_FROM_GC: Final = UNTRACKS_FROM_GC
_gc_track: Final = gc_track


class TaskRunner:
    """Runs each task of a bucket once, in however many threads.

    Reports exceptions of tasks to `on_error`, by default to the log. KeyboardInterrupt and
    SystemExit in the main thread end the run early.
    """

    def __init__(self, name: str, reader: ClockReader, on_error: OnError | None) -> None:
        self.lateness: LatenessHistogram = LatenessHistogram()
        # Of `real_seconds`: from then on tasks are cancelled, not run. Set by Timer.close.
        self.close_deadline: float | None = None
        self._name = name
        self._clock_reader = reader
        self._on_error = on_error

    def run(self, bucket: TimerTaskList) -> None:
        """Run the tasks of `bucket`; cancel them after the close deadline.

        Ends early if another thread takes the bucket over.
        """
        turn = bucket.turn
        while self._run_batch(bucket, turn):
            yield_gil()
        while self._past_close_deadline() and (tasks := bucket.cancel_some(TASKS_PER_CLOCK_READ)):
            self.close(tasks)
            yield_gil()

    def close(self, tasks: list[TimerTask]) -> None:
        """Call the close hook of tasks that the closing timer cancelled."""
        exit_error: BaseException | None = None
        for task in tasks:
            for is_first in (True, False):  # it may be interrupted before its first line
                try:
                    task._tt_on_close()
                    break
                except BaseException as error:  # noqa: BLE001  # it is reported
                    if is_process_exit(error):
                        exit_error = error
                    elif is_first:
                        self._report(error, task)
        if exit_error is not None:
            raise exit_error

    def _past_close_deadline(self) -> bool:
        return self.close_deadline is not None and real_seconds() >= self.close_deadline

    def _late_ns(self, bucket: TimerTaskList) -> i64:
        try:
            return self._clock_reader.now_ns() - bucket.expiration_ns
        except Exception:  # noqa: BLE001  # it is logged
            _log_raised("the clock of timer %r raised", self._name)
            return 0

    def _run_batch(self, bucket: TimerTaskList, turn: i64) -> bool:
        late_ns = self._late_ns(bucket)
        count: i64 = 0
        try:
            while (
                count < TASKS_PER_CLOCK_READ
                and bucket.turn == turn
                and (self.close_deadline is None or not self._past_close_deadline())
            ):
                task = bucket.take()
                if task is None:
                    break
                # No call between take and try: an interrupt there would lose the task.
                deadline_ns = task.deadline_ns
                try:
                    count += 1
                    task.run()
                except BaseException as error:  # noqa: BLE001  # as in close
                    self._on_raised(error, task, deadline_ns)
                finally:
                    if task.deadline_ns == deadline_ns:  # else another thread may run it again
                        task._tt_is_running = False
                    # Unless it was added again.
                    if _UNTRACKS_FROM_GC and task._tt_index == TAKEN and type(task) is TimerTask:
                        _gc_track(task)
        finally:
            if count:
                self._observe(late_ns, count)
        return count == TASKS_PER_CLOCK_READ

    def _on_raised(self, error: BaseException, task: TimerTask, deadline_ns: i64) -> None:
        try:
            if task.deadline_ns == deadline_ns:  # else it was added again
                task._tt_on_error()
        except Exception:  # noqa: BLE001  # it is logged
            _log_raised("ending a task of timer %r raised", self._name)
        self._report(error, task)

    def _observe(self, late_ns: i64, count: i64) -> None:
        try:
            self.lateness.observe(late_ns, count)
        except MemoryError:  # one figure is lost
            pass

    def report_refused(self, tasks: list[TimerTask], error: BaseException) -> None:
        """Report `error` for each refused task; log it once for all."""
        if self._on_error is None:
            log.error(
                "the executor of timer %r refused %d tasks", self._name, len(tasks), exc_info=error
            )
            return
        for task in tasks:
            self._report(error, task)

    def _report(self, error: BaseException, task: TimerTask) -> None:
        if is_process_exit(error):
            raise error
        try:
            if self._on_error is None:
                log.error("%r of timer %r raised", task, self._name, exc_info=error)
            else:
                self._on_error(error, task)
        except BaseException as another:
            if is_process_exit(another):
                raise
            _log_raised("on_error of timer %r raised", self._name)


def _log_raised(message: str, name: str) -> None:
    """Log the exception that is being handled."""
    try:
        log.exception(message, name)  # noqa: LOG004  # its callers handle one
    except MemoryError:
        pass


def is_process_exit(error: BaseException) -> bool:
    """Whether an exception is a Ctrl-C or an exit, in the main thread."""
    return (
        isinstance(error, (KeyboardInterrupt, SystemExit))
        and threading.current_thread() is threading.main_thread()
    )
