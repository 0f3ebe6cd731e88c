"""LoopDriver: advances a timer's clock from an event loop, without a thread.

It sleeps until the timer's first bucket is due. Posted commands (`complete_later`) are done when
the bus's mailbox becomes readable. In the loop's thread, but for `wake`.
"""

import asyncio
import logging
import os
import threading
import weakref

from purgatory.aio.loop_delivery import LoopDelivery
from purgatory.bus.loop import Bus
from timingwheel import Timer
from timingwheel.lowlevel import is_frozen, sleep_to_first_bucket

log: logging.Logger = logging.getLogger(__name__)

# Some loops (uvloop) count milliseconds, and may call too early: the loop would spin.
SHORTEST_SLEEP_S = 0.001

# How soon to look again while freezegun has frozen time.
FROZEN_POLL_S = 0.01

# After an error of the clock, instead of spinning.
ERROR_PAUSE_S = 1.0


class LoopDriver:
    """Drives a timer and its purgatory's bus. A `Waiter` of the timer."""

    def __init__(self, timer: Timer, bus: Bus, delivery: LoopDelivery) -> None:
        self._timer = timer
        self._bus = bus
        # A copy: any thread may close the purgatory, and the number then belongs to another file.
        self._descriptor = _copy_descriptor(bus)
        self._close_descriptor = weakref.finalize(self, _close_descriptor, self._descriptor)
        self._close_descriptor.atexit = False
        self._delivery = delivery
        self._loop: asyncio.AbstractEventLoop = delivery.loop
        # The next step, and its time on the loop's clock.
        self._handle: asyncio.TimerHandle | None = None
        self._when = 0.0
        self._is_waking = False
        self._is_ticking = False
        self._is_stopped = False

    def start(self) -> None:
        """Begin to drive the timer. In the loop."""
        self._timer.change_waiters(add=self)
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._do_posted)
        self._step()

    def stop(self) -> None:
        """Leave the timer and the loop. Idempotent. In the loop."""
        self._is_stopped = True
        self._timer.change_waiters(remove=self)
        self._leave_mailbox()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _leave_mailbox(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._loop.remove_reader(descriptor)
            self._close_descriptor()

    def wait(self, timeout: float | None) -> None:
        """Raise: a loop does not wait here."""
        raise RuntimeError(f"a loop cannot wait {timeout} seconds in its driver")

    def wake(self) -> None:
        """Look at the timer in the loop's next step: its first bucket has changed."""
        if not self._is_waking:
            self._is_waking = True
            try:
                self._delivery.call(self._on_wake)
            except BaseException:  # the timer wakes it again
                self._is_waking = False
                raise

    def _on_wake(self) -> None:
        self._is_waking = False  # first: later wake-ups are not lost
        if not self._is_stopped:
            self._arm()

    def _arm(self, at_least: float = 0.0) -> None:
        delay = self._sleep()
        if delay is None:  # the next step finds nothing due
            return
        if is_frozen():
            self._step_after_a_while()
        delay = max(delay, at_least)
        when = self._loop.time() + delay
        if self._handle is not None:
            if when >= self._when:
                return
            self._handle.cancel()
        self._when = when
        self._handle = self._loop.call_later(delay, self._step)

    def _step_after_a_while(self) -> None:
        """Let a thread bring the next step: the loop's frozen clock goes back."""
        if not self._is_ticking:
            self._is_ticking = True
            ticker = threading.Timer(FROZEN_POLL_S, self._delivery.call, (self._on_tick,))
            ticker.daemon = True
            ticker.start()

    def _on_tick(self) -> None:
        self._is_ticking = False
        if not self._is_stopped:
            self._step()

    def _sleep(self) -> float | None:
        try:
            return sleep_to_first_bucket(self._timer)
        except Exception as error:  # noqa: BLE001  # it is logged
            return self._pause_after(error)

    def _pause_after(self, error: Exception) -> float:
        log.error("the clock of timer %r raised", self._timer.name, exc_info=error)
        return ERROR_PAUSE_S

    def _do_posted(self) -> None:
        """Do posted commands; resolve their futures in portions."""
        self._delivery.hold_back()
        try:
            self._bus.do_posted(0)
            if self._bus.mailbox.closed:
                self._leave_mailbox()
        finally:
            self._delivery.deliver_portion()

    def _step(self) -> None:
        if self._handle is not None:  # the handle may be another step's
            self._handle.cancel()
            self._handle = None
        pause = 0.0
        self._delivery.hold_back()
        try:
            if not self._timer.advance_clock():
                pause = SHORTEST_SLEEP_S
        except Exception as error:  # noqa: BLE001  # no task's: the timer reports those
            pause = self._pause_after(error)
        finally:
            self._delivery.deliver_portion()
            if not self._is_stopped:
                self._arm(pause)


def _copy_descriptor(bus: Bus) -> int:
    """Return a copy of the mailbox's descriptor; -1 if closed."""
    try:
        copy = os.dup(bus.mailbox.fileno())
    except OSError:
        if bus.mailbox.closed:
            return -1
        raise
    if bus.mailbox.closed:  # meanwhile: the copy may be of another file
        os.close(copy)
        return -1
    return copy


def _close_descriptor(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
