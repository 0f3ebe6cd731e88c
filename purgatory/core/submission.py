"""Submission of an operation: check, watch, check again, start its timeout; or take it all back.

The second check sees completions before the watching; later completions find the operation in the
lists. Units of held events are used once the timeout has started, and returned if the timer
refuses. Any thread.
"""

from collections.abc import Hashable

from purgatory.core.completion import count_held
from purgatory.core.operations.operation import DelayedOperation, attach, detach
from purgatory.core.operations.operation_state import PROGRESSED, UNAFFECTED, Claim
from purgatory.core.operations.outcome_race import MAX_ATTEMPTS, request_check, settle
from purgatory.core.parts import PurgatoryParts
from purgatory.errors import PurgatoryClosed
from timingwheel import TimerClosed, TimerError, TimerTask


def submit(
    parts: PurgatoryParts,
    operation: DelayedOperation,
    keys: tuple[Hashable, ...],
    is_internal: bool = False,
) -> bool:
    """Let an operation wait for distinct keys until its timeout. True if completed here.

    `is_internal`: only keys complete the operation, and the program does not see it before this
    returns; if this raises, it has ended.
    """
    if not _attach(parts, operation, is_internal):
        return False
    is_checked = not is_internal and operation._op_has_condition
    claims: list[Claim] | None = None
    completed = False
    try:
        if is_checked and request_check(operation):
            return True
        parts.lists.watch(operation, keys)
        if is_checked and request_check(operation):
            return True
        if parts.held.holds:
            claims = []
            completed = count_held(parts, operation, keys, claims)
        if operation._op_outcome is None:
            parts.start_timeout(operation)
        if claims is not None:
            settle(claims, PROGRESSED)
    except BaseException as error:
        if _roll_back(parts, operation, error, is_internal, claims):
            raise
    # The operation may have ended before all its lists had it.
    if operation._op_outcome is not None:
        parts.lists.remove(operation)
        TimerTask.cancel(operation)
    return completed


def _attach(parts: PurgatoryParts, operation: DelayedOperation, is_internal: bool) -> bool:
    owner = parts.owner_of(operation)
    if is_internal:
        operation._op_owner = owner
        return True
    return attach(operation, owner)


def _roll_back(
    parts: PurgatoryParts,
    operation: DelayedOperation,
    error: BaseException,
    is_internal: bool,
    claims: list[Claim] | None,
) -> bool:
    """Take back a failed submission. False if the operation has ended.

    `claims`: returned, or used if the operation has ended.
    """
    attempts = 0
    while True:
        attempts += 1
        try:
            return _try_roll_back(parts, operation, error, is_internal, claims)
        except MemoryError:  # the next attempt goes on
            if attempts == MAX_ATTEMPTS:
                raise


def _try_roll_back(
    parts: PurgatoryParts,
    operation: DelayedOperation,
    error: BaseException,
    is_internal: bool,
    claims: list[Claim] | None,
) -> bool:
    parts.lists.remove(operation)
    if not isinstance(error, TimerError):  # the caller learns of the failure
        TimerTask.cancel(operation)
    # An internal operation ends: a thread that found it on a list must not waste a limited event. A
    # user's operation may be submitted again.
    pending = detach(operation, for_ever=is_internal)
    if pending:
        operation._op_forget_counted()
    if claims:
        effect = UNAFFECTED if pending else PROGRESSED
        try:
            settle(claims, effect)
        except BaseException:  # an interrupt
            settle(claims, effect)
            raise
    if pending and isinstance(error, TimerClosed) and parts.lists.closed:
        raise PurgatoryClosed(f"purgatory {parts.owner.name!r} is closed") from error
    return pending or not isinstance(error, Exception)
