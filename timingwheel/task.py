"""TimerTask: what is to run, and when. TimerTaskEntry: its place in the wheel.

In Kafka a task points to an entry and the entry to its list. Here the task *is* its entry, by
inheritance: one object a timer, and no way for the two to disagree.

A task is pending exactly while ``list`` names the bucket that holds it. Whoever takes it out of
that bucket, under the bucket's lock, owns what happens next: the canceller, the one who adds it
again, or the executor that runs it. All else follows from that.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from timingwheel._cpython.atomicity import ATOMIC_SECTIONS
from timingwheel._cpython.mypyc_types import i32, i64, mypyc_attr
from timingwheel.duration import FAST_PATH_MAX_S, to_ms

if TYPE_CHECKING:
    from timingwheel.bucket import TimerTaskList

# What became of an entry that is in no list. Written only by the thread that took it out.
NEW: Final = -1
RUNNING: Final = -2
DONE: Final = -3
CANCELLED: Final = -4

# Bound once: compiled, that saves a look into a dict for each task.
_callable: Final = callable


class _RunOverrideCache:
    """The class that was last found to have a `run` of its own. Used where there are steps.

    To name it is all that this does: it keeps a single class alive.
    """

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: type | None = None


_RUN_OVERRIDE_CACHE: Final = _RunOverrideCache()


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTaskEntry:
    """What a bucket holds. All fields are guarded by the lock of the bucket that holds it."""

    __slots__ = ("_tt_index", "_tt_list", "deadline_ms")

    # Set by the constructor below: a call less for each timer. In this order no memory is lost to
    # alignment.
    _tt_index: i32  # in _tt_list; without one, what became of it: one of the above
    _tt_list: "TimerTaskList | None"
    deadline_ms: i64  # reading of the timer's clock from which on it is due; 0 until added


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTask(TimerTaskEntry):
    """A callback to run after a delay, or a subclass that overrides `run`.

    ``delay``: seconds (float or int) or a timedelta, counted from the moment it is added. Raises
    TypeError and ValueError for a bad delay, TypeError if there is nothing to run. All methods may
    be called from any thread.
    """

    __slots__ = ("_tt_call", "delay_ms")

    def __init__(
        self,
        delay: float | timedelta,
        callback: Callable[..., object] | None = None,
        *args: Any,
    ) -> None:
        if callback is None:
            kind = type(self)
            # Most tasks without a callback are of the same class as the last one.
            if not ATOMIC_SECTIONS or kind is not _RUN_OVERRIDE_CACHE.last:
                if kind.run is TimerTask.run:
                    raise TypeError("callback is None; expected a callable")
                _RUN_OVERRIDE_CACHE.last = kind
        elif not _callable(callback):
            raise TypeError(f"callback is {callback!r}; expected a callable")
        self._tt_list = None
        self._tt_index = NEW
        self.deadline_ms = 0
        delay_ms: i64
        # to_ms, without a call for plain seconds
        if type(delay) is float and 0.0 <= delay < FAST_PATH_MAX_S:
            delay_ms = int(delay * 1000.0)
            if delay_ms / 1000 < delay:
                delay_ms += 1
        else:
            delay_ms = to_ms(delay)
        self.delay_ms: i64 = delay_ms
        # A callback, or a tuple (which can never be called) of one and its arguments, or None. Two
        # fields would be easier, and a sixth more memory.
        self._tt_call: Any = (callback, args) if args else callback

    def run(self) -> object:
        """Called once when the task is due, by the timer's executor, under no lock."""
        # What it returns is nobody's business; compiled, `None` would be insisted on.
        call = self._tt_call
        if type(call) is tuple:
            callback, args = call
            if callback is not None:
                callback(*args)
        elif call is not None:
            call()
        return None

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
        return self._tt_list is None and self._tt_index == CANCELLED

    def done(self) -> bool:
        """Whether the task has run to its end or was cancelled, and not added again since."""
        return self._tt_list is None and self._tt_index <= DONE

    def __repr__(self) -> str:
        call = self._tt_call
        callback = call[0] if type(call) is tuple else call
        what = type(self).__name__ if callback is None else repr(callback)
        if self._tt_list is not None:
            return f"<TimerTask {what} due at {self.deadline_ms} ms>"
        state = {NEW: "new", RUNNING: "running", DONE: "done", CANCELLED: "cancelled"}
        return f"<TimerTask {what} {state[self._tt_index]}>"
