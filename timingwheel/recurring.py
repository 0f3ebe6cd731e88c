"""Recurring: a task that runs again and again, at a fixed rate."""

from collections.abc import Callable
from contextvars import Context
from typing import Any

from _purgatory_cpython.locks import freed_at_exit, new_hot_rlock
from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from timingwheel.errors import TimerClosed
from timingwheel.task import TAKEN, TimerTask
from timingwheel.timer_core import TimerCore, add_task_at


@mypyc_attr(allow_interpreted_subclasses=True)
class Recurring(TimerTask):
    """What `Timer.every` returns. Any thread may call any method.

    Run n is due n - 1 intervals after the first, however long the callback takes. Two runs never
    overlap. A run is skipped, and counted in `skipped`, if the previous run lasts too long or the
    clock jumps over it. `Timer.reschedule` moves the next run and all later runs, as does
    `Timer.add`, also within a run. After `cancel` it never runs again, also if `Timer.add` takes
    the task.
    """

    __slots__ = ("_rc_ended", "_rc_interval_ns", "_rc_lock", "_rc_runs", "_rc_timer", "skipped")

    def __init__(
        self,
        timer: TimerCore,
        interval_ns: i64,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> None:
        super().__init__(0, callback, *args, context=context)
        self._rc_timer = timer
        self._rc_interval_ns: i64 = interval_ns
        self._rc_lock = new_hot_rlock()  # guards _rc_ended; a leaf lock
        self._rc_ended = False  # set once
        self._rc_runs = False  # whether a thread runs the callback, which alone changes it
        #: Missed runs. Written by the thread running the callback.
        self.skipped: int = 0

    def run(self) -> object:
        """Call the callback, then wait for the next run, whatever the callback raised."""
        if self._rc_ended:  # added again
            return None
        # No call until `try`: neither another thread nor an interrupt comes in between.
        overlaps = self._rc_runs
        if not overlaps:
            self._rc_runs = True
            self.delay_ns = self._rc_interval_ns  # for `Timer.add` within the run
        try:
            return None if overlaps else super().run()
        finally:
            if not overlaps:
                self._rc_runs = False
            self._arm_next()
            if overlaps:  # it was added again within another run
                self.skipped += 1

    def _arm_next(self) -> None:
        if self._tt_list is not None:  # added again, within this run or after it
            return
        failure: Exception | None = None
        now_ns: i64 = self.deadline_ns
        try:
            now_ns = self._rc_timer._clock_reader.now_ns()
        except Exception as error:  # noqa: BLE001  # the clock's; it is raised below
            failure = error
        self._arm_after(now_ns)
        if failure is not None:
            raise failure

    def _arm_after(self, now_ns: i64) -> None:
        interval_ns = self._rc_interval_ns
        next_ns = self.deadline_ns + interval_ns
        if next_ns < now_ns:
            missed = -(-(now_ns - next_ns) // interval_ns)
            self.skipped += missed
            next_ns += missed * interval_ns
        if self.cancelled():
            return
        try:
            add_task_at(self._rc_timer, self, next_ns, now_ns, limited=False)
        except TimerClosed:
            self._end()
        if self.cancelled():  # since: that call did not find the task in the timer
            super().cancel()

    def _end(self) -> bool:
        with freed_at_exit(self._rc_lock):
            ended, self._rc_ended = self._rc_ended, True
            return not ended

    def cancel(self) -> bool:
        """Stop the task: no further run starts. True for the call that stopped it."""
        first = self._end()
        super().cancel()
        return first

    def cancelled(self) -> bool:
        """Return whether `cancel` or the timer's end ended it."""
        return self._rc_ended

    def done(self) -> bool:
        """Return whether it was ended; its last run may be under way."""
        return self._rc_ended

    def _tt_on_close(self) -> None:
        self._end()

    def _tt_on_error(self) -> None:
        if self._tt_index == TAKEN:  # an interrupt before the first line of `run`
            self._arm_next()
