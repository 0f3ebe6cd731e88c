"""DelayedOperation: completes exactly once, expires exactly once, or is cancelled; never two.

The story of its lock. An operation is pulled at from all sides: completers check it, the executor
expires it, somebody cancels it, all at once. Its own lock guards a few plain fields and is held for
a few lines without a call, never while user code runs and never together with another lock of
ours. So nothing that a callback does, back into the purgatory, into other operations, for its own
key, can deadlock.

Who sets ``_op_outcome`` has decided; that happens once. He takes the operation off wheel and lists.
What follows is *duties*: ask ``try_complete`` (again), then tell the outcome. One thread at a time
is at work on an operation; who finds it at work leaves his duty as a flag and goes, and the thread
at work does it before it leaves. Hence a check that comes while another runs is never lost, it only
runs a moment later, and the methods of one operation never overlap.

A KeyboardInterrupt may come at any call or loop. Each step is done with its mark or not at all, and
who was interrupted takes the remaining steps before he lets the interrupt go on: an operation that
has ended is told so, always. (A second interrupt meanwhile may cut that short.)

Names that begin with ``_op_`` are for this package: subclasses of users have ``_lock``s and
``keys`` of their own, which must not meet ours.
"""

import enum
import logging
import threading
from collections import deque
from collections.abc import Hashable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol

from timingwheel import TimerTask

log = logging.getLogger(__name__)


class Outcome(enum.StrEnum):
    """How an operation ended."""

    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


# The steps of an end, in order. Each is marked as done together with doing it, so that whoever goes
# on after an interrupt neither leaves one out nor does it twice.
PENDING = 0
COUNTED = 1  # off the watch lists' count
JOURNALED = 2
RELEASED = 3  # off the wheel and the lists: it may be told
HALF_TOLD = 4  # expired, and on_complete was called
TOLD = 5

# Callbacks that complete operations whose callbacks complete operations: from this depth on they
# wait until those around them are done, lest a long chain end in a RecursionError.
MAX_NESTED = 12


class Keeper(Protocol):
    """What an operation needs of the purgatory that keeps it."""

    def refuse_in_child(self) -> None:
        """Raise PurgatoryForked in a forked child."""

    def release(self, operation: "DelayedOperation", outcome: Outcome) -> None:
        """Take an operation that has ended off all watch lists, count and record its outcome.

        Goes on where an interrupt ended it when called again.
        """

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
        "_op_stage",
    )

    def __init__(self, timeout: float | timedelta) -> None:
        super().__init__(timeout)
        self._op_keys: tuple[Hashable, ...] = ()  # being watched; written by the watch lists
        self._op_keeper: Keeper | None = None
        # Guards the next three fields. A leaf: no other lock is taken while it is held.
        self._op_lock: AbstractContextManager[bool] = threading.Lock()
        self._op_outcome: Outcome | None = None
        self._op_busy = False  # a thread is at work on the duties
        self._op_again = False  # duty: ask try_complete
        # How far its end has come. Up to RELEASED written by who set the outcome, from there on by
        # the thread at work.
        self._op_stage = PENDING

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
        this is called from `try_complete`, the caller itself) is to run it next, or this is called
        a dozen callbacks deep: then when these have returned.
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
        # The timer has let go of it and calls once, so interrupted it ends all the same. (Not if
        # that is before this line, inline: then it stays on its lists, to be completed or closed.)
        try:
            self._op_end(Outcome.EXPIRED)
        except BaseException:
            self._op_end(Outcome.EXPIRED)
            raise

    def _tt_on_close(self) -> None:
        """Called by a timer that closes before the timeout: no one is left waiting."""
        try:
            self._op_end(Outcome.CANCELLED)
        except BaseException:
            self._op_end(Outcome.CANCELLED)
            raise

    def _op_attempt(self) -> bool:
        """Ask `try_complete`, now or by the thread at work. True if this call completed it."""
        # Without the lock: who is at work looks under it before leaving, and we do right after.
        self._op_again = True
        return self._op_outcome is None and self._op_work()

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """React to the completion of a watch key. True if this call completed the operation."""
        del key, value  # a condition of the user's own is asked, whatever was completed
        return self._op_attempt()

    def _op_enter(self, keeper: Keeper, keys: tuple[Hashable, ...]) -> bool:
        """Belong to a purgatory from now on; False if it has ended, and stays where it ended.

        ValueError if it waits already.
        """
        del keys  # for those who count them
        entered = False
        try:
            with self._op_lock:
                if self._op_outcome is not None:
                    return False
                if self._op_keeper is None:
                    # No call between these: an interrupt finds both done or neither.
                    entered = True
                    self._op_keeper = keeper
        except BaseException:
            if entered:
                self._op_withdraw()
            raise
        if not entered:
            raise ValueError(f"{self!r} was submitted already; expected a new operation")
        return True

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
            if won:
                self._op_leave(outcome)
        except BaseException:
            if won:
                self._op_leave(outcome)
            raise
        return won

    def _op_leave(self, outcome: Outcome) -> None:
        """Let go of wheel and watch lists, and tell. Only by who set the outcome.

        Goes on where an interrupt ended it when called again.
        """
        if self._op_stage < RELEASED:
            self._op_leave_timer()
            if self._op_keeper is not None:
                self._op_keeper.release(self, outcome)
            self._op_stage = RELEASED
        self._op_work()

    def _op_work(self) -> bool:
        """Do the duties, unless another thread is at it. True if `try_complete` completed it."""
        nesting = _nesting
        completed = at_work = False
        try:
            while True:
                with self._op_lock:
                    if self._op_busy and not at_work:
                        return False
                    outcome = self._op_outcome
                    if outcome is None:
                        left = self._op_again
                    else:
                        left = RELEASED <= self._op_stage < TOLD and nesting.depth < MAX_NESTED
                    # No call between these: an interrupt finds both done or neither.
                    self._op_busy = left
                    at_work = left
                if not left:
                    break
                if outcome is None:
                    completed = self._op_ask() or completed
                else:
                    self._op_tell(outcome)
            if outcome is not None and self._op_stage < TOLD and nesting.depth >= MAX_NESTED:
                nesting.waiting.append(self)
        except BaseException:  # an interrupt, which is not the end of the duties
            if at_work:
                self._op_interrupted()
                with self._op_lock:
                    self._op_busy = False
            self._op_work()
            nesting.tell_waiting()
            raise
        return completed

    def _op_interrupted(self) -> None:
        """A callback may have been cut short. Those of users are not called twice."""

    def _op_ask(self) -> bool:
        self._op_again = False  # before asking: what comes from now on is asked about again
        try:
            satisfied = bool(self.try_complete())
        except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
            self._op_report(error)
            return False
        return satisfied and (
            self._op_outcome is Outcome.COMPLETED or self._op_end(Outcome.COMPLETED)
        )

    def _op_tell(self, outcome: Outcome) -> None:
        """Call the next callback. Each is marked just before, without a call in between."""
        nesting = _nesting
        nesting.depth += 1
        try:
            if outcome is Outcome.CANCELLED:
                self._op_stage = TOLD
                self.on_cancel()
            elif self._op_stage == RELEASED:
                self._op_stage = TOLD if outcome is Outcome.COMPLETED else HALF_TOLD
                self.on_complete()
            else:
                self._op_stage = TOLD
                self.on_expiration()
        except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
            self._op_report(error)
        finally:
            nesting.depth -= 1
            if nesting.waiting:
                nesting.tell_waiting()

    def _op_report(self, error: Exception) -> None:
        if self._op_keeper is not None:
            self._op_keeper.report(error, self)
        else:
            log.error("%r raised", self, exc_info=error)

    def __repr__(self) -> str:
        state = "pending" if self._op_outcome is None else str(self._op_outcome)
        return f"<{type(self).__name__} {state}, timeout {self.delay_ms} ms>"


class _Nesting(threading.local):
    """How deep this thread is in callbacks of callbacks, and who waits for it to come back."""

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: deque[DelayedOperation] = deque()

    def tell_waiting(self) -> None:
        """Do the duties of those who wait, once all callbacks around us are done."""
        waiting = self.waiting
        if self.depth or not waiting:
            return
        self.depth = 1
        try:
            while waiting:
                waiting[0]._op_work()
                waiting.popleft()
        finally:
            self.depth = 0
            if waiting:  # an interrupt: the others wait still
                self.tell_waiting()


_nesting = _Nesting()
