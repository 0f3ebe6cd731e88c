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

Compiled, those few lines are one step (see ``timingwheel.steps``) and take no lock at all. They are
functions here, as is all that is done for each operation: compiled methods of a class that may be
subclassed are looked up at each call.

Names that begin with ``_op_`` are for this package: subclasses of users have ``_lock``s and
``keys`` of their own, which must not meet ours.
"""

import logging
import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from purgatory.native import mypyc_attr
from purgatory.nesting import ALONE, HERE, Nesting
from purgatory.outcome import CANCELLED, COMPLETED, EXPIRED, Outcome
from timingwheel import STEPS, TimerTask, show

if TYPE_CHECKING:
    from purgatory.keeper import Keeper

log = logging.getLogger(__name__)

# Bound once: compiled, that saves a look into the module's dict for each operation.
_show: Final = show


# The steps of an end, in order. Each is marked as done together with doing it, so that whoever goes
# on after an interrupt neither leaves one out nor does it twice.
PENDING: Final = 0
COUNTED: Final = 1  # off the watch lists' count
JOURNALED: Final = 2
RELEASED: Final = 3  # off the wheel and the lists: it may be told
HALF_TOLD: Final = 4  # expired, and on_complete was called
TOLD: Final = 5

# Callbacks that complete operations whose callbacks complete operations: from this depth on they
# wait until those around them are done, lest a long chain end in a RecursionError.
MAX_NESTED: Final = 12


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(TimerTask):
    """What waits for a condition, at most ``timeout`` seconds (or a timedelta).

    Subclass it: `try_complete` checks the condition, `on_complete` and `on_expiration` react.
    Submit it with `Purgatory.try_complete_else_watch`, once. The other methods may be called from
    any thread. Raises TypeError and ValueError for a bad timeout.
    """

    __slots__ = (
        "_op_again",
        "_op_asks",
        "_op_busy",
        "_op_keeper",
        "_op_keys",
        "_op_lock",
        "_op_outcome",
        "_op_stage",
        "_op_ticket",
    )

    _op_ticket: object  # of the watch lists; see `WatchLists.watch`, which sets it first

    def __init__(self, timeout: float | timedelta) -> None:
        super().__init__(timeout)
        self._op_keys: tuple[Hashable, ...] = ()  # being watched; written by the watch lists
        self._op_keeper: Keeper | None = None
        self._op_asks = True  # whether try_complete has anything to say
        # Guards the next three fields, where there are no steps. A leaf: no other lock is taken
        # while it is held.
        self._op_lock: AbstractContextManager[bool] | None = None if STEPS else threading.Lock()
        self._op_outcome: Outcome | None = None
        self._op_busy = False  # a thread is at work on the duties
        self._op_again = False  # duty: ask try_complete
        # How far its end has come. Up to RELEASED written by who set the outcome, from there on by
        # the thread at work.
        self._op_stage = PENDING

    def try_complete(self) -> object:
        """Check the condition; when it is satisfied: ``return self.force_complete()``.

        Called at submission and for each completion of a watch key, never twice at a time. An
        exception is reported and counts as not satisfied.
        """
        return False

    def on_complete(self) -> object:
        """Called exactly once, on completion or on expiry; not when cancelled."""
        # What these return is nobody's business; compiled, `None` would be insisted on.
        return None

    def on_expiration(self) -> object:
        """Called after `on_complete`, only when the operation expired."""
        return None

    def on_cancel(self) -> object:
        """Called exactly once, when the operation was cancelled: nothing else will come."""
        return None

    @property
    def completed(self) -> bool:
        """Whether the operation has completed or expired; the callbacks may be running still."""
        return self._op_outcome is COMPLETED or self._op_outcome is EXPIRED

    def force_complete(self) -> bool:
        """Complete it, condition or not. True for exactly one caller among all who end it.

        `on_complete` has run when this returns, unless the thread at work on the operation (if
        this is called from `try_complete`, the caller itself) is to run it next, or this is called
        a dozen callbacks deep: then when these have returned.
        """
        refuse_in_child(self)
        return end(self, COMPLETED)

    def cancel(self) -> bool:
        """End it without completing it, off the wheel and off all watch lists. True if it did."""
        refuse_in_child(self)
        return end(self, CANCELLED)

    def cancelled(self) -> bool:
        """Whether the operation was cancelled."""
        return self._op_outcome is CANCELLED

    def done(self) -> bool:
        """Whether the operation has ended."""
        return self._op_outcome is not None

    def run(self) -> object:
        """Expire; called by the timer's executor."""
        # The timer has let go of it and calls once, so interrupted it ends all the same. (Not if
        # that is before this line, inline: then it stays on its lists, to be completed or closed.)
        try:
            end(self, EXPIRED)
        except BaseException:
            end(self, EXPIRED)
            raise
        return None

    def _tt_on_close(self) -> None:
        """Called by a timer that closes before the timeout: no one is left waiting."""
        try:
            end(self, CANCELLED)
        except BaseException:
            end(self, CANCELLED)
            raise

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """React to the completion of a watch key. True if this call completed the operation."""
        del key, value  # a condition of the user's own is asked, whatever was completed
        return attempt(self)

    def _op_interrupted(self) -> None:
        """A callback may have been cut short. Those of users are not called twice."""

    def __repr__(self) -> str:
        state = "pending" if self._op_outcome is None else str(self._op_outcome)
        return f"<{type(self).__name__} {state}, timeout {self.delay_ms} ms>"


def attempt(operation: DelayedOperation) -> bool:
    """Ask `try_complete`, now or by the thread at work. True if this call completed it."""
    if not operation._op_asks:
        return False
    # Without the lock: who is at work looks under it before leaving, and we do right after.
    operation._op_again = True
    return operation._op_outcome is None and work(operation)


def enter(operation: DelayedOperation, keeper: "Keeper") -> bool:
    """Belong to a purgatory from now on; False if it has ended, and stays where it ended.

    ValueError if it waits already.
    """
    entered = False
    try:
        if STEPS:
            entered = _enter(operation, keeper)
        else:
            with operation._op_lock:  # type: ignore[union-attr]
                entered = _enter(operation, keeper)
    except BaseException:
        if entered:
            withdraw(operation)
        raise
    if not entered and operation._op_outcome is None:
        raise ValueError(f"{operation!r} was submitted already; expected a new operation")
    return entered


def _enter(operation: DelayedOperation, keeper: "Keeper") -> bool:
    if operation._op_outcome is not None or operation._op_keeper is not None:
        return False
    operation._op_keeper = keeper
    return True


def withdraw(operation: DelayedOperation) -> bool:
    """Belong to no purgatory again. False if it has ended, and stays where it ended."""
    if STEPS:
        return _withdraw(operation)
    with operation._op_lock:  # type: ignore[union-attr]
        return _withdraw(operation)


def _withdraw(operation: DelayedOperation) -> bool:
    if operation._op_outcome is not None:
        return False
    operation._op_keeper = None
    return True


def refuse_in_child(operation: DelayedOperation) -> None:
    """Raise PurgatoryForked if it belongs to a purgatory from before a fork."""
    keeper = operation._op_keeper
    if keeper is not None:
        keeper.refuse_in_child()


def end(operation: DelayedOperation, outcome: Outcome) -> bool:
    """Give it this outcome, and see that it is told. False if it has one."""
    won = False
    try:
        if STEPS:
            won = _claim(operation, outcome)
        else:
            with operation._op_lock:  # type: ignore[union-attr]
                won = _claim(operation, outcome)
        if won:
            leave(operation, outcome)
    except BaseException:
        if won:
            leave(operation, outcome)
        raise
    return won


def _claim(operation: DelayedOperation, outcome: Outcome) -> bool:
    # CPython lets nobody in when a Python function returns: who has won knows it.
    if operation._op_outcome is not None:
        return False
    operation._op_outcome = outcome
    return True


def leave(operation: DelayedOperation, outcome: Outcome) -> None:
    """Let go of wheel and watch lists, and tell. Only by who set the outcome.

    Goes on where an interrupt ended it when called again.
    """
    if operation._op_stage < RELEASED:
        keeper = operation._op_keeper
        if STEPS and keeper is not None and keeper.hides:
            _show(operation)
        TimerTask.cancel(operation)  # off the wheel, and no more than that
        if keeper is not None:
            keeper.release(operation, outcome)
        operation._op_stage = RELEASED
    work(operation)


# What there is to do for who would work on an operation.
_NOTHING: Final = 0
_BUSY: Final = 1  # nothing: another thread is at it
_ASK: Final = 2
_TELL: Final = 3


def work(operation: DelayedOperation) -> bool:
    """Do the duties, unless another thread is at it. True if `try_complete` completed it."""
    completed = False
    duty = _NOTHING
    try:
        while True:
            if STEPS:
                duty = _next_duty(operation, duty)
            else:
                with operation._op_lock:  # type: ignore[union-attr]
                    duty = _next_duty(operation, duty)
            if duty < _ASK:
                return completed
            if duty == _ASK:
                completed = _ask(operation) or completed
            elif not _tell(operation):
                return completed
    except BaseException:  # an interrupt, which is not the end of the duties
        if duty >= _ASK:
            operation._op_interrupted()
            _rest(operation)
        work(operation)
        tell_waiting(HERE.it)
        raise


def _next_duty(operation: DelayedOperation, last: int) -> int:
    if operation._op_busy and last < _ASK:
        return _BUSY
    duty = _NOTHING
    if operation._op_outcome is None:
        if operation._op_again:
            duty = _ASK
    elif RELEASED <= operation._op_stage < TOLD:
        duty = _TELL
    operation._op_busy = duty >= _ASK
    return duty


def _rest(operation: DelayedOperation) -> None:
    if STEPS:
        operation._op_busy = False
    else:
        with operation._op_lock:  # type: ignore[union-attr]
            operation._op_busy = False


def _ask(operation: DelayedOperation) -> bool:
    operation._op_again = False  # before asking: what comes from now on is asked about again
    try:
        satisfied = bool(operation.try_complete())
    except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
        _report(operation, error)
        return False
    if not satisfied:
        return False
    return operation._op_outcome is COMPLETED or end(operation, COMPLETED)


def _tell(operation: DelayedOperation) -> bool:
    """Call the next callback, or False: too many are around us, so `tell_waiting` will."""
    nesting = None
    if STEPS and not ALONE.taken:
        ALONE.taken = True
    else:
        nesting = HERE.it
        if nesting.depth >= MAX_NESTED:
            nesting.waiting.append(operation)
            _rest(operation)
            return False
        nesting.depth += 1
    try:
        _call_back(operation)
    except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
        _report(operation, error)
    finally:
        if nesting is None:
            ALONE.taken = False
        else:
            nesting.depth -= 1
            if nesting.waiting:
                tell_waiting(nesting)
    return True


def _call_back(operation: DelayedOperation) -> None:
    """Each is marked just before it is called, without a call in between."""
    if operation._op_outcome is CANCELLED:
        operation._op_stage = TOLD
        operation.on_cancel()
    elif operation._op_stage == HALF_TOLD:
        operation._op_stage = TOLD
        operation.on_expiration()
    else:
        operation._op_stage = TOLD if operation._op_outcome is COMPLETED else HALF_TOLD
        operation.on_complete()


def _report(operation: DelayedOperation, error: Exception) -> None:
    keeper = operation._op_keeper
    if keeper is not None:
        keeper.report(error, operation)
    else:
        log.error("%r raised", operation, exc_info=error)


def tell_waiting(nesting: Nesting) -> None:
    """Do the duties of those who wait, once all callbacks around us are done."""
    waiting = nesting.waiting
    if nesting.depth or not waiting:
        return
    nesting.depth = 1
    try:
        while waiting:
            work(waiting[0])
            waiting.popleft()
    finally:
        nesting.depth = 0
        if waiting:  # an interrupt: the others wait still
            tell_waiting(nesting)
