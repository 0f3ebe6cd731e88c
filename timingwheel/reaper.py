"""Reaper: the one loop that advances a timer, and what it waits on.

The loop knows its way of waiting only as a `Waiter`. A bare timer gives it a condition; a system
with commands between its threads gives it a mailbox, and its reaper sleeps until the next bucket
*or* the next command.
"""

import logging
import threading
from typing import Protocol

log = logging.getLogger(__name__)

# After an error that is not a task's (a clock that raises): no spinning.
PAUSE_AFTER_ERROR = 1.0


class Waiter(Protocol):
    """Something to sleep on. One thread waits, any thread wakes."""

    def wait(self, timeout: float | None) -> None:
        """Sleep ``timeout`` seconds (None: for ever); not at all if woken since the last wait."""

    def wake(self) -> None:
        """End the wait under way, or the next one."""


class ConditionWaiter:
    """A `Waiter` within the process; a wake-up is kept until a wait consumes it."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._woken = False

    def wait(self, timeout: float | None) -> None:
        """See `Waiter`."""
        with self._condition:
            if not self._woken and (timeout is None or timeout > 0):
                self._condition.wait(timeout)
            self._woken = False

    def wake(self) -> None:
        """See `Waiter`."""
        with self._condition:
            self._woken = True
            self._condition.notify()


class Reapable(Protocol):
    """What a reaper needs of a timer."""

    def advance_clock(self) -> bool:
        """Do what is due."""

    def patience(self) -> float | None:
        """Seconds that the thread which advances the timer may sleep; None: until woken."""

    def finished(self) -> bool:
        """Whether the timer is closed and needs its reaper no more."""

    def finish(self) -> None:
        """The last thing that the reaper does."""


class Reaper:
    """A thread around `step`. Owned by whoever made it; ends when its timer is finished."""

    def __init__(self, timer: Reapable, waiter: Waiter, name: str) -> None:
        self._timer = timer
        self._waiter = waiter
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def step(self) -> None:
        """Sleep until something is due or somebody wakes us, then do what is due."""
        self._waiter.wait(self._timer.patience())
        self._timer.advance_clock()

    def join(self, timeout: float | None) -> None:
        """Wait for the end of the thread, which does not wait for itself."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._timer.finished():
            try:
                self.step()
            except BaseException:
                # Tasks report to on_error; what comes here is a clock's or an inline SystemExit.
                log.exception("%s goes on after an error", self._thread.name)
                self._waiter.wait(PAUSE_AFTER_ERROR)
        self._timer.finish()
