"""Outcome race: completion, expiry and cancellation race; one wins, and the callbacks follow.

The thread that sets `_op_outcome` wins the race, once, and takes the operation off the wheel and
the watch lists. *Actions* follow: call `try_complete` (again), then the callbacks. One thread at a
time runs the actions of an operation. A thread that finds the operation busy leaves a flag and
returns; the busy thread checks the flag before leaving. So no check is lost, and the methods of an
operation never overlap. For a limited event the flag comes with a `Claim`.

The callbacks: `on_complete` when completed; `on_complete`, then `on_expiration` when expired;
`on_cancel` when cancelled; `on_failure` when failed. Each is called at most once, under no lock. An
exception is reported to the owner and stops nothing. From `MAX_NESTED` nested callbacks on, further
callbacks are deferred, or a long chain would end in a RecursionError.

A KeyboardInterrupt may come at any call or loop. An interrupted thread first does the remaining
stages: a finished operation gets its callbacks, unless a second interrupt comes.

Past 400 lines: checks, callbacks and their repetition after an interrupt call each other in turn.

Any thread.
"""

import logging
from collections import deque
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Final, cast

from _purgatory_cpython.threads import ThreadLocal
from purgatory.core.operations.operation_state import (
    CALLBACKS_DONE,
    CANCELLED,
    COMPLETED,
    ENDED,
    EXPIRED,
    ON_COMPLETE_CALLED,
    RELEASED,
    UNAFFECTED,
    Claim,
    OperationState,
    Outcome,
    enter,
    leave,
)
from timingwheel import TimerTask
from timingwheel.lowlevel import (
    ATOMIC_SECTIONS,
    COMPILED,
    LOCKED_SECTIONS,
    gc_track,
    is_process_exit,
    keep_for_ever,
    thread_dict,
)

log: logging.Logger = logging.getLogger(__name__)

# Bound once: compiled code looks up no module's dict.
_gc_track: Final = gc_track
_thread_dict: Final = thread_dict

# How often a thread without memory tries to take an operation off its lists. Limited: a key may
# raise MemoryError for ever.
MAX_ATTEMPTS: Final = 200

# What `_next_action` returns.
_NOTHING: Final = 0
_BUSY: Final = 1  # another thread runs the actions
_CHECK_CONDITION: Final = 2
_RUN_CALLBACK: Final = 3

# What `_run_action` returns.
_DONE: Final = 0
_SATISFIED: Final = 1  # try_complete completed the operation
_DEFERRED: Final = 2  # the callback is deferred; the operation is busy no more

MAX_NESTED: Final = 12

# What `run_next_callback` returns.
DEFERRED: Final = 0
CALLED: Final = 1
CALLED_AND_OTHERS_DEFERRED: Final = 2


class CallbackDepth:
    """How many callbacks are running on a thread, and the operations deferred meanwhile."""

    __slots__ = ("deferred", "depth")

    def __init__(self) -> None:
        self.depth: int = 0
        self.deferred: deque[OperationState] = deque()


class OutermostCallback:
    """A mark that one callback at a time takes, instead of looking up the depth of its thread.

    Callbacks inside see it active, and are counted. Saves 8 % of a pair of submission and
    completion (callgrind).
    """

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: bool = False  # read and written in atomic sections; else unused


# Claims left to busy threads, or about to be, with their operations.
_LEFT: Final[dict[Claim, OperationState]] = {}
keep_for_ever(_LEFT)

_CALLBACK_DEPTH: Final = ThreadLocal(CallbackDepth)
OUTERMOST_CALLBACK: Final = OutermostCallback()


def callback_depth() -> CallbackDepth:
    """Return how deep the callbacks of this thread are nested."""
    if not LOCKED_SECTIONS:
        return _CALLBACK_DEPTH.value
    fields = _thread_dict()
    found = fields.get("purgatory.callback_depth")
    if found is None:
        found = fields["purgatory.callback_depth"] = CallbackDepth()
    return cast("CallbackDepth", found)


def request_check(operation: OperationState, claim: Claim | None = None) -> bool:
    """Call `try_complete`, here or in the busy thread. True if this completed it.

    `claim`: to be left to the busy thread, if any.
    """
    if not operation._op_has_condition:
        return False
    if claim is None:
        _set_recheck(operation, True)
        return operation._op_outcome is None and run_actions(operation)
    try:
        _LEFT[claim] = operation
        return operation._op_outcome is None and run_actions(operation, claim)
    finally:
        if not claim.is_left:
            _LEFT.pop(claim, None)


def _set_recheck(operation: OperationState, wanted: bool) -> None:
    """Ask for a check, or note its beginning.

    Locked where sections are: else the processor could clear the flag late, and wipe out a request
    whose cause the check has not seen.
    """
    if LOCKED_SECTIONS:
        enter(operation)
        operation._op_recheck = wanted
        leave(operation)
    else:
        operation._op_recheck = wanted


def finish(operation: OperationState, outcome: Outcome) -> bool:
    """Set the outcome and do everything that follows. False if already set."""
    won = False
    try:
        if COMPILED:
            enter(operation)
            won = try_set_outcome(operation, outcome)
            leave(operation)
        else:
            with operation._op_lock:
                won = try_set_outcome(operation, outcome)
        if won:
            finalize(operation, outcome)
    except BaseException:
        # Inline: to call a function may take memory, too.
        attempts = 0
        while won and attempts < MAX_ATTEMPTS:
            attempts += 1
            try:
                finalize(operation, outcome)
                won = False
            except MemoryError:
                pass
        raise
    return won


def try_set_outcome(operation: OperationState, outcome: Outcome) -> bool:
    """Win the race, or return False. Locked, or in an atomic section.

    The caller calls `finalize` if it won, also after an interrupt: CPython lets none in when a
    Python function returns.
    """
    if operation._op_outcome is not None:
        return False
    operation._op_outcome = outcome
    return True


def finalize(operation: OperationState, outcome: Outcome) -> None:
    """Take the operation off wheel and watch lists, and run its callbacks. Only by the winner.

    Idempotent: after an interrupt, a second call does the rest. An error of the release is raised
    at the end: a second attempt does the rest after the error of a signal handler.
    """
    attempts = 0
    failure: Exception | None = None
    while operation._op_stage < RELEASED:
        attempts += 1
        try:
            _release(operation, outcome)
        except MemoryError as error:
            if attempts == MAX_ATTEMPTS:
                failure = error
                operation._op_stage = RELEASED
        except Exception as error:  # noqa: BLE001  # it is raised below
            if failure is not None:
                operation._op_stage = RELEASED
            failure = error
    run_actions(operation)
    if failure is not None:
        raise failure


def end_alone(operation: OperationState, outcome: Outcome) -> bool:
    """Do as `finish`, for an operation without callbacks, in the only thread there is."""
    won = try_set_outcome(operation, outcome)
    if won:
        _release(operation, outcome)
    return won


def _release(operation: OperationState, outcome: Outcome) -> None:
    owner = operation._op_owner
    if owner is not None and owner.untracks:
        _gc_track(operation)
    TimerTask.cancel(operation)  # off the wheel; not a subclass's cancel
    if owner is not None:
        owner.record_outcome(operation, outcome)
    operation._op_stage = RELEASED


def run_actions(operation: OperationState, claim: Claim | None = None) -> bool:
    """Run all actions, unless another thread does. True if `try_complete` completed it.

    `claim`: asks for a check, and is left to the other thread.
    """
    completed = False
    action = _NOTHING
    try:
        while True:
            if COMPILED:
                enter(operation)
                action = _next_action(operation, action, claim)
                leave(operation)
            else:
                with operation._op_lock:
                    action = _next_action(operation, action, claim)
            claim = None
            if _LEFT and action not in (_CHECK_CONDITION, _BUSY):
                settle(_left_to(operation), UNAFFECTED)
            if action < _CHECK_CONDITION:
                return completed
            result = _run_action(operation, action)
            if result == _DEFERRED:
                return completed
            # CPython 3.14 catches no interrupt at the end of a loop that ends in a condition.
            completed = completed or result == _SATISFIED
    except BaseException:  # an interrupt
        if action >= _CHECK_CONDITION:
            operation._op_on_interrupted()
            _clear_busy(operation)
        run_actions(operation)
        run_deferred_callbacks()
        raise


def _next_action(operation: OperationState, last: int, claim: Claim | None) -> int:
    if claim is not None:
        operation._op_recheck = True
    if operation._op_busy and last < _CHECK_CONDITION:
        if claim is not None and operation._op_outcome is None:
            claim.is_left = True
        return _BUSY
    action = _NOTHING
    if operation._op_outcome is None:
        if operation._op_recheck:
            action = _CHECK_CONDITION
    elif RELEASED <= operation._op_stage < CALLBACKS_DONE:
        action = _RUN_CALLBACK
    operation._op_busy = action >= _CHECK_CONDITION
    return action


def _run_action(operation: OperationState, action: int) -> int:
    if action == _CHECK_CONDITION:
        return _SATISFIED if _check_condition(operation) else _DONE
    return _DONE if _run_callback(operation) else _DEFERRED


def _clear_busy(operation: OperationState) -> None:
    if ATOMIC_SECTIONS:
        operation._op_busy = False
    else:
        while not _try_clear_busy(operation):
            pass  # a lock takes a few bytes


def _try_clear_busy(operation: OperationState) -> bool:
    try:
        with operation._op_lock:
            operation._op_busy = False
    except MemoryError:
        return False
    return True


def _check_condition(operation: OperationState) -> bool:
    _set_recheck(operation, False)  # before the call: a later request checks again
    if not _LEFT:
        return _try_complete(operation)
    claims = _left_to(operation)  # after the flag: those that come later ask again
    satisfied = False
    try:
        satisfied = _try_complete(operation)
    except BaseException:  # an interrupt
        satisfied = operation._op_outcome is COMPLETED
        raise
    finally:
        try:
            settle(claims, ENDED if satisfied else UNAFFECTED)
        except BaseException:  # an interrupt
            settle(claims, ENDED if satisfied else UNAFFECTED)
            raise
    return satisfied


def _left_to(operation: OperationState) -> list[Claim]:
    """Return the claims left to the busy thread, which calls this."""
    found = _LEFT.copy().items()
    return [claim for claim, of in found if of is operation and claim.is_left]


def settle(claims: list[Claim], effect: int) -> None:
    """Settle claims; after an interrupt, a second call does the rest."""
    for claim in claims:
        try:
            claim.settle(effect)
        except Exception:  # a key's
            _LEFT.pop(claim, None)
            raise
        _LEFT.pop(claim, None)


def _try_complete(operation: OperationState) -> bool:
    try:
        satisfied = _truth(operation.try_complete())
    except BaseException as error:  # noqa: BLE001  # user code
        report(operation, error)
        return False
    if not satisfied:
        return False
    return operation._op_outcome is COMPLETED or finish(operation, COMPLETED)


def _truth(value: object) -> bool:
    if type(value) is bool:
        return value
    if isinstance(value, (CoroutineType, GeneratorType, AsyncGeneratorType)):
        if not isinstance(value, AsyncGeneratorType):
            value.close()
        raise TypeError(f"try_complete returned {value!r}; expected whether it is satisfied")
    return bool(value)


def _run_callback(operation: OperationState) -> bool:
    result = run_next_callback(operation)
    if result == DEFERRED:
        _clear_busy(operation)
        return False
    if result == CALLED_AND_OTHERS_DEFERRED:
        run_deferred_callbacks()
    return True


def run_next_callback(operation: OperationState) -> int:
    """Call the next callback of an operation, or defer it if too many are running."""
    nesting = None
    if ATOMIC_SECTIONS and not OUTERMOST_CALLBACK.active:
        OUTERMOST_CALLBACK.active = True
    else:
        nesting = callback_depth()
        if nesting.depth >= MAX_NESTED:
            nesting.deferred.append(operation)
            return DEFERRED
        nesting.depth += 1
    try:
        call_next(operation)
    except Exception as error:  # noqa: BLE001  # user code
        operation._op_on_raised(error)
        report(operation, error)
    except BaseException as error:  # an exit; or a CancelledError of user code
        if is_process_exit(error):
            raise
        operation._op_on_interrupted()
        report(operation, error)
    finally:
        if nesting is None:
            OUTERMOST_CALLBACK.active = False
        else:
            nesting.depth -= 1
    if nesting is not None and nesting.deferred:
        return CALLED_AND_OTHERS_DEFERRED
    return CALLED


def call_next(operation: OperationState) -> None:
    """Mark each callback just before calling it, without a call in between."""
    outcome = operation._op_outcome
    if outcome is EXPIRED and operation._op_stage != ON_COMPLETE_CALLED:
        operation._op_stage = ON_COMPLETE_CALLED
        operation.on_complete()
        return
    operation._op_stage = CALLBACKS_DONE
    if outcome is COMPLETED:
        operation.on_complete()
    elif outcome is EXPIRED:
        operation.on_expiration()
    elif outcome is CANCELLED:
        operation.on_cancel()
    else:
        operation.on_failure()


def report(operation: OperationState, error: BaseException) -> None:
    """Report an exception of user code to the operation's owner; log it without owner."""
    owner = operation._op_owner
    if owner is not None:
        owner.report(error, operation)
    elif is_process_exit(error):
        raise error
    else:
        log.error("%r raised", operation, exc_info=error)


def run_deferred_callbacks() -> None:
    """Run the deferred actions of this thread, once all callbacks have returned."""
    nesting = callback_depth()
    deferred = nesting.deferred
    if nesting.depth or not deferred:
        return
    nesting.depth = 1
    try:
        while deferred:
            run_actions(deferred[0])
            deferred.popleft()
    finally:
        nesting.depth = 0
        if deferred:  # an interrupt
            run_deferred_callbacks()
