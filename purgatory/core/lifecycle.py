"""Duties: what is done with an operation that is checked or ends, by whoever comes first.

Who sets ``_op_outcome`` has decided; that happens once. He takes the operation off wheel and lists.
What follows is *duties*: ask ``try_complete`` (again), then tell the outcome. One thread at a time
is at work on an operation; who finds it at work leaves his duty as a flag and goes, and the thread
at work does it before it leaves. Hence a check that comes while another runs is never lost, it only
runs a moment later, and the methods of one operation never overlap.

A KeyboardInterrupt may come at any call or loop. Each step is done with its mark or not at all, and
who was interrupted takes the remaining steps before he lets the interrupt go on: an operation that
has ended is told so, always. (A second interrupt meanwhile may cut that short.)

For `DelayedOperation` and those who know its inside; any thread. `_op_lock` is held for a few lines
without a call, or not at all where they are one step; see `purgatory.core.operation`.
"""

import logging
from typing import TYPE_CHECKING, Final

from purgatory.core.callback_depth import ALONE, HERE, Nesting
from purgatory.core.outcome import CANCELLED, COMPLETED, Outcome
from timingwheel import STEPS, TimerTask, show

if TYPE_CHECKING:
    from purgatory.core.operation import DelayedOperation

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


def attempt(operation: "DelayedOperation") -> bool:
    """Ask `try_complete`, now or by the thread at work. True if this call completed it."""
    if not operation._op_asks:
        return False
    # Without the lock: who is at work looks under it before leaving, and we do right after.
    operation._op_again = True
    return operation._op_outcome is None and work(operation)


def end(operation: "DelayedOperation", outcome: Outcome) -> bool:
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


def _claim(operation: "DelayedOperation", outcome: Outcome) -> bool:
    # CPython lets nobody in when a Python function returns: who has won knows it.
    if operation._op_outcome is not None:
        return False
    operation._op_outcome = outcome
    return True


def leave(operation: "DelayedOperation", outcome: Outcome) -> None:
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


def work(operation: "DelayedOperation") -> bool:
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


def _next_duty(operation: "DelayedOperation", last: int) -> int:
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


def _rest(operation: "DelayedOperation") -> None:
    if STEPS:
        operation._op_busy = False
    else:
        with operation._op_lock:  # type: ignore[union-attr]
            operation._op_busy = False


def _ask(operation: "DelayedOperation") -> bool:
    operation._op_again = False  # before asking: what comes from now on is asked about again
    try:
        satisfied = bool(operation.try_complete())
    except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
        _report(operation, error)
        return False
    if not satisfied:
        return False
    return operation._op_outcome is COMPLETED or end(operation, COMPLETED)


def _tell(operation: "DelayedOperation") -> bool:
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


def _call_back(operation: "DelayedOperation") -> None:
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


def _report(operation: "DelayedOperation", error: Exception) -> None:
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
