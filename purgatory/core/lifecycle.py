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

from purgatory.core.callback_depth import CALLBACK_DEPTH, OUTERMOST_CALLBACK, CallbackDepth
from purgatory.core.outcome import CANCELLED, COMPLETED, Outcome
from timingwheel import TimerTask
from timingwheel.lowlevel import ATOMIC_SECTIONS, gc_track

if TYPE_CHECKING:
    from purgatory.core.operation import DelayedOperation

log = logging.getLogger(__name__)

# Bound once: compiled, that saves a look into the module's dict for each operation.
_gc_track: Final = gc_track


# The steps of an end, in order. Each is marked as done together with doing it, so that whoever goes
# on after an interrupt neither leaves one out nor does it twice.
PENDING: Final = 0
COUNTED: Final = 1  # off the watch lists' count
JOURNALED: Final = 2
RELEASED: Final = 3  # off the wheel and the lists: it may be told
ON_COMPLETE_CALLED: Final = 4  # expired, and on_complete was called
CALLBACKS_DONE: Final = 5

# Callbacks that complete operations whose callbacks complete operations: from this depth on they
# wait until those around them are done, lest a long chain end in a RecursionError.
MAX_NESTED: Final = 12


def request_check(operation: "DelayedOperation") -> bool:
    """Ask `try_complete`, now or by the thread at work. True if this call completed it."""
    if not operation._op_has_condition:
        return False
    # Without the lock: who is at work looks under it before leaving, and we do right after.
    operation._op_recheck = True
    return operation._op_outcome is None and run_actions(operation)


def finish(operation: "DelayedOperation", outcome: Outcome) -> bool:
    """Give it this outcome, and see that it is told. False if it has one."""
    won = False
    try:
        if ATOMIC_SECTIONS:
            won = _try_set_outcome(operation, outcome)
        else:
            with operation._op_lock:  # type: ignore[union-attr]
                won = _try_set_outcome(operation, outcome)
        if won:
            finalize(operation, outcome)
    except BaseException:
        if won:
            finalize(operation, outcome)
        raise
    return won


def _try_set_outcome(operation: "DelayedOperation", outcome: Outcome) -> bool:
    # CPython lets nobody in when a Python function returns: who has won knows it.
    if operation._op_outcome is not None:
        return False
    operation._op_outcome = outcome
    return True


def finalize(operation: "DelayedOperation", outcome: Outcome) -> None:
    """Let go of wheel and watch lists, and tell. Only by who set the outcome.

    Goes on where an interrupt ended it when called again.
    """
    if operation._op_stage < RELEASED:
        owner = operation._op_owner
        if ATOMIC_SECTIONS and owner is not None and owner.untracks:
            _gc_track(operation)
        TimerTask.cancel(operation)  # off the wheel, and no more than that
        if owner is not None:
            owner.release(operation, outcome)
        operation._op_stage = RELEASED
    run_actions(operation)


# What there is to do for who would work on an operation.
_NOTHING: Final = 0
_BUSY: Final = 1  # nothing: another thread is at it
_CHECK_CONDITION: Final = 2
_RUN_CALLBACK: Final = 3


def run_actions(operation: "DelayedOperation") -> bool:
    """Do the duties, unless another thread is at it. True if `try_complete` completed it."""
    completed = False
    action = _NOTHING
    try:
        while True:
            if ATOMIC_SECTIONS:
                action = _next_action(operation, action)
            else:
                with operation._op_lock:  # type: ignore[union-attr]
                    action = _next_action(operation, action)
            if action < _CHECK_CONDITION:
                return completed
            if action == _CHECK_CONDITION:
                completed = _check_condition(operation) or completed
            elif not _run_next_callback(operation):
                return completed
    except BaseException:  # an interrupt, which is not the end of the duties
        if action >= _CHECK_CONDITION:
            operation._op_on_interrupted()
            _clear_busy(operation)
        run_actions(operation)
        run_deferred_callbacks(CALLBACK_DEPTH.value)
        raise


def _next_action(operation: "DelayedOperation", last: int) -> int:
    if operation._op_busy and last < _CHECK_CONDITION:
        return _BUSY
    action = _NOTHING
    if operation._op_outcome is None:
        if operation._op_recheck:
            action = _CHECK_CONDITION
    elif RELEASED <= operation._op_stage < CALLBACKS_DONE:
        action = _RUN_CALLBACK
    operation._op_busy = action >= _CHECK_CONDITION
    return action


def _clear_busy(operation: "DelayedOperation") -> None:
    if ATOMIC_SECTIONS:
        operation._op_busy = False
    else:
        with operation._op_lock:  # type: ignore[union-attr]
            operation._op_busy = False


def _check_condition(operation: "DelayedOperation") -> bool:
    operation._op_recheck = False  # before asking: what comes from now on is asked about again
    try:
        satisfied = bool(operation.try_complete())
    except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
        _report(operation, error)
        return False
    if not satisfied:
        return False
    return operation._op_outcome is COMPLETED or finish(operation, COMPLETED)


def _run_next_callback(operation: "DelayedOperation") -> bool:
    """Call the next callback; False if it nests too deep: `run_deferred_callbacks` will."""
    depth_here = None
    if ATOMIC_SECTIONS and not OUTERMOST_CALLBACK.active:
        OUTERMOST_CALLBACK.active = True
    else:
        depth_here = CALLBACK_DEPTH.value
        if depth_here.depth >= MAX_NESTED:
            depth_here.deferred.append(operation)
            _clear_busy(operation)
            return False
        depth_here.depth += 1
    try:
        _call_next_callback(operation)
    except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
        _report(operation, error)
    finally:
        if depth_here is None:
            OUTERMOST_CALLBACK.active = False
        else:
            depth_here.depth -= 1
            if depth_here.deferred:
                run_deferred_callbacks(depth_here)
    return True


def _call_next_callback(operation: "DelayedOperation") -> None:
    """Each is marked just before it is called, without a call in between."""
    if operation._op_outcome is CANCELLED:
        operation._op_stage = CALLBACKS_DONE
        operation.on_cancel()
    elif operation._op_stage == ON_COMPLETE_CALLED:
        operation._op_stage = CALLBACKS_DONE
        operation.on_expiration()
    else:
        operation._op_stage = (
            CALLBACKS_DONE if operation._op_outcome is COMPLETED else ON_COMPLETE_CALLED
        )
        operation.on_complete()


def _report(operation: "DelayedOperation", error: Exception) -> None:
    owner = operation._op_owner
    if owner is not None:
        owner.report(error, operation)
    else:
        log.error("%r raised", operation, exc_info=error)


def run_deferred_callbacks(depth_here: CallbackDepth) -> None:
    """Do the duties of those who wait, once all callbacks around us are done."""
    deferred = depth_here.deferred
    if depth_here.depth or not deferred:
        return
    depth_here.depth = 1
    try:
        while deferred:
            run_actions(deferred[0])
            deferred.popleft()
    finally:
        depth_here.depth = 0
        if deferred:  # an interrupt: the others wait still
            run_deferred_callbacks(depth_here)
