"""TaskRunner: runs the tasks of detached buckets, for whichever thread the executor chose."""

import logging
import time
from collections.abc import Callable

from timingwheel.clock import Clock
from timingwheel.stats import LatenessHistogram
from timingwheel.task import DONE, RUNNING, TimerTask
from timingwheel.tasklist import TimerTaskList

log = logging.getLogger(__name__)

OnError = Callable[[BaseException, TimerTask], object]

# Tasks run between two looks at the clock for their lateness.
TASKS_PER_LOOK = 256


class TaskRunner:
    """Runs each task of a bucket once, however many threads run that bucket at a time."""

    def __init__(self, name: str, now_ms: Clock, on_error: OnError | None) -> None:
        self.lateness = LatenessHistogram()
        # By time.monotonic: from then on tasks are cancelled instead. Set when the timer closes.
        self.give_up_at: float | None = None
        self._name = name
        self._now_ms = now_ms
        self._on_error = on_error

    def run(self, bucket: TimerTaskList, catch: type[BaseException]) -> None:
        """Run what is in ``bucket``; exceptions of class ``catch`` are reported and passed over."""
        while self._run_some(bucket, catch):
            pass
        while self._late() and (tasks := bucket.cancel_some(TASKS_PER_LOOK)):
            self.close(tasks)

    def close(self, tasks: list[TimerTask]) -> None:
        """Tell tasks that their timer closed before they ran."""
        for task in tasks:
            try:
                task._tt_on_close()
            except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
                self._report(error, task)

    def _late(self) -> bool:
        return self.give_up_at is not None and time.monotonic() >= self.give_up_at

    def _run_some(self, bucket: TimerTaskList, catch: type[BaseException]) -> bool:
        late_ms = self._now_ms() - bucket.expiration_ms
        count = 0
        try:
            while count < TASKS_PER_LOOK and not self._late():
                task = bucket.take()
                if task is None:
                    break
                count += 1
                self._run_one(task, catch)
        finally:
            if count:
                self.lateness.observe(late_ms, count)
        return count == TASKS_PER_LOOK

    def _run_one(self, task: TimerTask, catch: type[BaseException]) -> None:
        try:
            task.run()
        except catch as error:
            self._report(error, task)
        finally:
            if task._tt_state == RUNNING:  # else it was added again
                task._tt_state = DONE

    def refuse(self, bucket: TimerTaskList, error: BaseException) -> None:
        """Report ``error`` for each task of a bucket that cannot be run, and be done with it."""
        while (task := bucket.take()) is not None:
            task._tt_state = DONE
            self._report(error, task)

    def _report(self, error: BaseException, task: TimerTask) -> None:
        if self._on_error is None:
            log.error("%r of timer %r raised", task, self._name, exc_info=error)
            return
        try:
            self._on_error(error, task)
        except Exception:
            log.exception("on_error of timer %r raised", self._name)
