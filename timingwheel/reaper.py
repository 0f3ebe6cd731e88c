"""Reaper: the thread that sleeps until something is due and advances the timer.

The loop sleeps on a `Waiter`: a condition, or a mailbox, which also wakes for commands.
"""

import contextlib
import logging
import threading
from pathlib import Path
from typing import Protocol

from _purgatory_cpython import at_exit
from _purgatory_cpython.locks import new_rlock
from _purgatory_cpython.threads import InterruptibleThread

log: logging.Logger = logging.getLogger(__name__)

# Pause after the second error in a row that is not a task's (a clock that raises).
ERROR_PAUSE_S = 1.0


class Waiter(Protocol):
    """What a reaper sleeps on. One thread waits, any thread wakes."""

    def wait(self, timeout: float | None) -> None:
        """Sleep `timeout` seconds (None: until woken), unless woken since the last wait."""

    def wake(self) -> None:
        """End the present wait, or the next."""


class ConditionWaiter:
    """A `Waiter` within the process; keeps a wake-up until a wait consumes it.

    A bare lock, released while a wake-up is kept. Both sides are atomic, so a finalizer or signal
    handler may wake the thread it interrupts.
    """

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wait(self, timeout: float | None) -> None:
        """See `Waiter`. More than 292 years count as None."""
        if timeout is None or timeout >= threading.TIMEOUT_MAX:
            self._asleep.acquire()
        else:
            self._asleep.acquire(timeout=max(0.0, timeout))

    def wake(self) -> None:
        """See `Waiter`."""
        try:
            self._asleep.release()
        except RuntimeError:  # a wake-up is kept already
            pass


class Advanceable(Protocol):
    """What a reaper needs of a timer."""

    def advance_clock(self) -> bool:
        """See `Timer`."""

    def max_sleep(self) -> float | None:
        """See `Timer`."""

    def finished(self) -> bool:
        """See `Timer`."""

    def shut_down(self) -> None:
        """See `Timer`."""


class Reaper:
    """A thread that repeats `step` until the timer is finished."""

    def __init__(self, timer: Advanceable, waiter: Waiter, name: str) -> None:
        self._timer = timer
        self._waiter = waiter
        self._thread = InterruptibleThread(target=self._run, name=name, daemon=True)
        self._starting = new_rlock()
        # Guarded by _starting. False after a failed start(), though a thread may have begun.
        self.started: bool = False
        self._is_stopping = False

    def start(self) -> None:
        """Start the thread. An interrupted start leaves no thread behind."""
        with self._starting:
            self._thread.start()
            self.started = True
        at_exit.register(self)

    def step(self) -> None:
        """Sleep until due or woken, then run what is due."""
        self._waiter.wait(self._timer.max_sleep())
        self._timer.advance_clock()

    def join(self, timeout: float | None) -> None:
        """Wait for the thread to end; does nothing in that thread."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def ended(self) -> bool:
        """Return whether the thread has ended."""
        return not self._thread.is_alive()

    def stop_at_exit(self) -> None:
        """End the thread after its present step; leave the timer as it is."""
        self._is_stopping = True
        self._waiter.wake()

    def _run(self) -> None:
        try:
            self._repeat_steps()
        except BaseException:  # noqa: BLE001  # from another thread, between two steps
            self._run()
            return
        if self.started and not self._is_stopping:
            self._timer.shut_down()

    def _repeat_steps(self) -> None:
        with self._starting:
            if not self.started:
                return
        reduce_timer_slack()
        failure = Failure(self._waiter)
        while not (self._is_stopping or self._timer.finished()):
            try:
                failure.report()
                self.step()
                failure.count = 0
            except BaseException as error:  # noqa: BLE001  # it is reported
                failure.add(error)
        # The timer may have finished before the first step: a waiter that serves other threads, as
        # a mailbox does, must know the thread that ends here.
        self._waiter.wait(0.0)


class Failure:
    """The error of a clock, or meant to kill the thread.

    Reported within the next step, where another exception does no harm either.
    """

    def __init__(self, waiter: Waiter) -> None:
        self._waiter = waiter
        self._error: BaseException | None = None
        self.count: int = 0  # in a row

    def add(self, error: BaseException) -> None:
        """Keep an error for the report."""
        self._error = error
        self.count += 1

    def report(self) -> None:
        """Log the last error, if any; pause from the second in a row on.

        After the first the next sleep ends at once: the failed step may have left work.
        """
        if self._error is not None:
            error, self._error = self._error, None
            log.error(
                "%s continues after an error", threading.current_thread().name, exc_info=error
            )
            if self.count > 1:
                self._waiter.wait(ERROR_PAUSE_S)
            else:
                self._waiter.wake()


def reduce_timer_slack() -> None:
    """Let this thread's sleeps end on time; Linux adds 50 us (prctl(2))."""
    with contextlib.suppress(OSError):  # another system
        Path(f"/proc/{threading.get_native_id()}/timerslack_ns").write_text("1", encoding="ascii")
