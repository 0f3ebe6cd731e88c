"""Reaper: the one loop that advances a timer, and what it waits on.

The loop knows its way of waiting only as a `Waiter`. A bare timer gives it a condition; a system
with commands between its threads gives it a mailbox, and its reaper sleeps until the next bucket
*or* the next command.
"""

import contextlib
import logging
import threading
from pathlib import Path
from typing import Protocol

log = logging.getLogger(__name__)

# After an error that is not a task's (a clock that raises): no spinning.
ERROR_PAUSE_S = 1.0


class Waiter(Protocol):
    """Something to sleep on. One thread waits, any thread wakes."""

    def wait(self, timeout: float | None) -> None:
        """Sleep ``timeout`` seconds (None: for ever); not at all if woken since the last wait."""

    def wake(self) -> None:
        """End the wait under way, or the next one."""


class ConditionWaiter:
    """A `Waiter` within the process; a wake-up is kept until a wait consumes it.

    Inside is a bare lock, free while a wake-up is kept: both sides are one step, so a finalizer or
    a signal handler may wake the very thread that it interrupts on its way into the wait.
    """

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wait(self, timeout: float | None) -> None:
        """See `Waiter`. More than 292 years are for ever."""
        if timeout is None or timeout >= threading.TIMEOUT_MAX:
            self._asleep.acquire()
        else:
            self._asleep.acquire(timeout=max(0.0, timeout))

    def wake(self) -> None:
        """See `Waiter`."""
        try:
            self._asleep.release()
        except RuntimeError:  # it is free: a wake-up is kept already
            pass


class Advanceable(Protocol):
    """What a reaper needs of a timer."""

    def advance_clock(self) -> bool:
        """Do what is due."""

    def max_sleep(self) -> float | None:
        """Seconds that the thread which advances the timer may sleep; None: until woken."""

    def finished(self) -> bool:
        """Whether the timer is closed and needs its reaper no more."""

    def shut_down(self) -> None:
        """The last thing that the reaper does."""


class Reaper:
    """A thread around `step`. Owned by whoever made it; ends when its timer is finished."""

    def __init__(self, timer: Advanceable, waiter: Waiter, name: str) -> None:
        self._timer = timer
        self._waiter = waiter
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._starting = threading.Lock()
        # Guarded by _starting. Stays False if start() raised, though a thread may have begun.
        self.started = False

    def start(self) -> None:
        """Start the thread. Interrupted, it leaves none behind."""
        with self._starting:
            self._thread.start()
            self.started = True

    def step(self) -> None:
        """Sleep until something is due or somebody wakes us, then do what is due."""
        self._waiter.wait(self._timer.max_sleep())
        self._timer.advance_clock()

    def join(self, timeout: float | None) -> None:
        """Wait for the end of the thread, which does not wait for itself."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def ended(self) -> bool:
        """Whether the thread has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        with self._starting:
            if not self.started:
                return
        _reduce_timer_slack()
        while not self._timer.finished():
            try:
                self.step()
            except BaseException:
                # Tasks report to on_error; what comes here is a clock's.
                log.exception("%s goes on after an error", self._thread.name)
                self._waiter.wait(ERROR_PAUSE_S)
        self._timer.shut_down()


def _reduce_timer_slack() -> None:
    """Have this thread's sleeps end when they are over.

    Linux lets them last 50 us longer, so that it has less to do (timer slack, see prctl(2)).
    """
    with contextlib.suppress(OSError):  # another system
        Path(f"/proc/{threading.get_native_id()}/timerslack_ns").write_text("1", encoding="ascii")
