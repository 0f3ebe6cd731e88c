"""DelayedOperation: completes exactly once, expires exactly once, or is cancelled; never two.

The story of its lock. An operation is pulled at from all sides: completers check it, the executor
expires it, somebody cancels it, all at once. Its own lock guards five plain fields and is held for
a few lines without a call, never while user code runs and never together with another lock of
ours. So nothing that a callback does, back into the purgatory, into other operations, for its own
key, can deadlock.

Who sets ``_outcome`` has decided; that happens once. What follows is *duties*: ask ``try_complete``
(again), then tell the outcome. One thread at a time is at work on an operation; who finds it at
work leaves his duty as a flag and goes, and the thread at work does it before it leaves. Hence a
check that comes while another runs is never lost, it only runs a moment later, and the methods of
one operation never overlap.

Names that begin with ``_op_`` are for this package: subclasses of users have ``_lock``s and
``keys`` of their own, which must not meet ours.
"""

import enum
import logging
import threading
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Protocol

from timingwheel import TimerTask

log = logging.getLogger(__name__)


class Outcome(enum.StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Keeper(Protocol):
    """What an operation needs of the purgatory that keeps it."""

    def refuse_in_child(self) -> None:
        """Raise PurgatoryForked in a forked child."""

    def release(self, operation: "DelayedOperation", outcome: Outcome) -> None:
        """Take an operation that has ended off all watch lists, count and record its outcome."""

    def report(self, error: Exception, operation: "DelayedOperation") -> None:
        """Tell ``on_error`` of an exception in user code."""


class DelayedOperation(TimerTask):
    """What waits for a condition, at most ``timeout`` seconds (or a timedelta).

    Subclass it: `try_complete` checks the condition, `on_complete` and `on_expiration` react.
    Submit it with `Purgatory.try_complete_else_watch`, once. The other methods may be called from
    any thread. Raises TypeError and ValueError for a bad timeout.
    """

    __slots__ = (
        "_op_again",
        "_op_busy",
        "_op_keeper",
        "_op_keys",
        "_op_lock",
        "_op_outcome",
        "_op_told",
    )

    def __init__(self, timeout: float | timedelta) -> None:
        super().__init__(timeout)
        self._op_keys: tuple[Hashable, ...] = ()  # being watched; written by the watch lists
        self._op_keeper: Keeper | None = None
        # Guards the fields below. A leaf: no other lock is taken while it is held.
        self._op_lock = threading.Lock()
        self._op_outcome: Outcome | None = None
        self._op_busy = False  # a thread is at work on the duties
        self._op_again = False  # duty: ask try_complete
        self._op_told = False  # duty done: the outcome was told

    def try_complete(self) -> bool:
        """Check the condition; when it is satisfied: ``return self.force_complete()``.

        Called at submission and for each completion of a watch key, never twice at a time. An
        exception is reported and counts as not satisfied.
        """
        return False

    def on_complete(self) -> None:
        """Called exactly once, on completion or on expiry; not when cancelled."""

    def on_expiration(self) -> None:
        """Called after `on_complete`, only when the operation expired."""

    def on_cancel(self) -> None:
        """Called exactly once, when the operation was cancelled: nothing else will come."""

    @property
    def completed(self) -> bool:
        """Whether the operation has completed or expired; the callbacks may be running still."""
        return self._op_outcome is Outcome.COMPLETED or self._op_outcome is Outcome.EXPIRED

    def force_complete(self) -> bool:
        """Complete it, condition or not. True for exactly one caller among all who end it.

        `on_complete` has run when this returns, unless the thread at work on the operation (if
        this is called from `try_complete`, the caller itself) is to run it next.
        """
        self._op_refuse_in_child()
        return self._op_end(Outcome.COMPLETED)

    def cancel(self) -> bool:
        """End it without completing it, off the wheel and off all watch lists. True if it did."""
        self._op_refuse_in_child()
        return self._op_end(Outcome.CANCELLED)

    def cancelled(self) -> bool:
        """Whether the operation was cancelled."""
        return self._op_outcome is Outcome.CANCELLED

    def done(self) -> bool:
        """Whether the operation has ended."""
        return self._op_outcome is not None

    def run(self) -> None:
        """Expire; called by the timer's executor."""
        self._op_end(Outcome.EXPIRED)

    def _tt_on_close(self) -> None:
        """Called by a timer that closes before the timeout: no one is left waiting."""
        self._op_end(Outcome.CANCELLED)

    def _op_attempt(self) -> bool:
        """Ask `try_complete`, now or by the thread at work. True if this call completed it."""
        with self._op_lock:
            if self._op_outcome is not None:
                return False
            self._op_again = True
        return self._op_work()

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """React to the completion of a watch key. True if this call completed the operation."""
        del key, value  # a condition of the user's own is asked, whatever was completed
        return self._op_attempt()

    def _op_enter(self, keeper: Keeper) -> None:
        """Belong to a purgatory from now on. ValueError if it waits in one already."""
        with self._op_lock:
            waits = self._op_keeper is not None and self._op_outcome is None
            if not waits:
                self._op_keeper = keeper
        if waits:
            raise ValueError(f"{self!r} was submitted already; expected a new operation")

    def _op_withdraw(self) -> bool:
        """Belong to no purgatory again. False if it has ended, and stays where it ended."""
        with self._op_lock:
            if self._op_outcome is not None:
                return False
            self._op_keeper = None
            return True

    def _op_leave_timer(self) -> None:
        """Take it off the wheel, and no more than that."""
        super().cancel()

    def _op_refuse_in_child(self) -> None:
        if self._op_keeper is not None:
            self._op_keeper.refuse_in_child()

    def _op_end(self, outcome: Outcome) -> bool:
        won = False
        try:
            with self._op_lock:
                if self._op_outcome is None:
                    # No call between these: an interrupt finds both done or neither.
                    won = True
                    self._op_outcome = outcome
        finally:
            if won:
                self._op_leave(outcome)
        return won

    def _op_leave(self, outcome: Outcome) -> None:
        """Let go of wheel and watch lists, and tell. Only by who set the outcome."""
        try:
            self._op_leave_timer()
            if self._op_keeper is not None:
                self._op_keeper.release(self, outcome)
        finally:
            self._op_work()

    def _op_work(self) -> bool:
        """Do the duties, unless another thread is at it. True if `try_complete` completed it."""
        with self._op_lock:
            if self._op_busy:
                return False
            self._op_busy = True
        completed = False
        try:
            while self._op_duty_left():
                completed = self._op_do_duty() or completed
        except BaseException:  # an interrupt, which is not the end of the duties
            with self._op_lock:
                self._op_busy = False
            self._op_work()
            raise
        return completed

    def _op_duty_left(self) -> bool:
        with self._op_lock:
            left = not self._op_told if self._op_outcome is not None else self._op_again
            self._op_busy = left
            return left

    def _op_do_duty(self) -> bool:
        outcome = self._op_outcome
        if outcome is None:
            self._op_again = False  # before asking: what comes from now on is asked about again
            return self._op_ask()
        self._op_told = True
        self._op_tell(outcome)
        return False

    def _op_ask(self) -> bool:
        satisfied = self._op_guard(self.try_complete)
        return bool(satisfied) and (self._op_outcome is Outcome.COMPLETED or self.force_complete())

    def _op_tell(self, outcome: Outcome) -> None:
        if outcome is Outcome.CANCELLED:
            self._op_guard(self.on_cancel)
            return
        try:
            self._op_guard(self.on_complete)
        finally:
            if outcome is Outcome.EXPIRED:
                self._op_guard(self.on_expiration)

    def _op_guard(self, method: Callable[[], object]) -> object:
        try:
            return method()
        except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
            self._op_report(error)
            return None

    def _op_report(self, error: Exception) -> None:
        if self._op_keeper is not None:
            self._op_keeper.report(error, self)
        else:
            log.error("%r raised", self, exc_info=error)

    def __repr__(self) -> str:
        state = "pending" if self._op_outcome is None else str(self._op_outcome)
        return f"<{type(self).__name__} {state}, timeout {self.delay_ms} ms>"
