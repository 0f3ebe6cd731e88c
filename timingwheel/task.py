"""TimerTask: what is to run, and when. TimerTaskEntry: its place in the wheel.

In Kafka a task points to an entry and the entry to its list. Here the task *is* its entry, by
inheritance: one object a timer, and no way for the two to disagree.

A task is pending exactly while ``list`` names the bucket that holds it. Whoever takes it out of
that bucket, under the bucket's lock, owns what happens next: the canceller, the one who adds it
again, or the executor that runs it. All else follows from that.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from timingwheel.clock import to_ms

if TYPE_CHECKING:
    from timingwheel.tasklist import TimerTaskList

# What became of an entry that is in no list. Written only by the thread that took it out.
NEW = 0
RUNNING = 1
DONE = 2
CANCELLED = 3


class TimerTaskEntry:
    """What a bucket holds. All fields are guarded by the lock of the bucket that holds it."""

    __slots__ = ("_tt_index", "_tt_list", "_tt_state", "deadline_ms")

    # Set by TimerTask's constructor: a call less for each timer.
    deadline_ms: int  # reading of the timer's clock from which on it is due; 0 until added
    _tt_index: int  # position in _tt_list
    _tt_list: "TimerTaskList | None"
    _tt_state: int


class TimerTask(TimerTaskEntry):
    """A callback to run after a delay, or a subclass that overrides `run`.

    ``delay``: seconds (float or int) or a timedelta, counted from the moment it is added. Raises
    TypeError and ValueError for a bad delay, TypeError if there is nothing to run. All methods may
    be called from any thread.
    """

    __slots__ = ("_tt_args", "_tt_callback", "delay_ms")

    def __init__(
        self,
        delay: float | timedelta,
        callback: Callable[..., object] | None = None,
        *args: Any,
    ) -> None:
        if not callable(callback) and (callback is not None or type(self).run is TimerTask.run):
            raise TypeError(f"callback is {callback!r}; expected a callable")
        self.delay_ms = to_ms(delay)
        self.deadline_ms = 0
        self._tt_index = 0
        self._tt_list = None
        self._tt_state = NEW
        self._tt_callback = callback
        self._tt_args = args

    def run(self) -> None:
        """Called once when the task is due, by the timer's executor, under no lock."""
        if self._tt_callback is not None:
            self._tt_callback(*self._tt_args)

    def _tt_on_close(self) -> None:
        """Called, under no lock, when the timer closed before the task was due and cancelled it."""

    def cancel(self) -> bool:
        """Take the task out of its timer. True if this call prevented the run.

        That includes a task already handed to the executor, until it starts. False for one that
        runs, has run, was cancelled before or was never added.
        """
        while (bucket := self._tt_list) is not None:
            if bucket.cancel(self):
                return True
        return False

    def cancelled(self) -> bool:
        """Whether the task was cancelled, and not added again since."""
        return self._tt_list is None and self._tt_state == CANCELLED

    def done(self) -> bool:
        """Whether the task has run to its end or was cancelled, and not added again since."""
        return self._tt_list is None and self._tt_state >= DONE

    def __repr__(self) -> str:
        what = type(self).__name__ if self._tt_callback is None else repr(self._tt_callback)
        if self._tt_list is not None:
            return f"<TimerTask {what} due at {self.deadline_ms} ms>"
        return f"<TimerTask {what} {('new', 'running', 'done', 'cancelled')[self._tt_state]}>"
