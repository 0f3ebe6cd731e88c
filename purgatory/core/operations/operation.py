"""DelayedOperation: completes exactly once, expires exactly once, or is cancelled; never two.

Many threads act on an operation at once. Its lock guards a few plain fields (see `OperationState`)
for a few lines without a call, never while user code runs, and never together with another lock of
the package: nothing that a callback does can deadlock. Operations may share a lock: see
`timingwheel.lowlevel.shared_lock`. Compiled, those lines are an atomic section, without a lock, or
with a cheap lock where there is no interpreter lock.

Frequent work is written as functions, here and in `outcome_race`: compiled, a method of a class
that may be subclassed is looked up at each call.
"""

from collections.abc import Hashable

from _purgatory_cpython.mypyc_types import mypyc_attr
from purgatory.core.operations.operation_state import (
    CANCELLED,
    COMPLETED,
    ENDED,
    EXPIRED,
    IN_DOUBT,
    UNAFFECTED,
    UNFINISHED,
    Claim,
    OperationOwner,
    OperationState,
    enter,
    leave,
)
from purgatory.core.operations.outcome_race import MAX_ATTEMPTS, finish, request_check
from timingwheel.lowlevel import COMPILED


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(OperationState):
    """Waits for a condition, at most `timeout` seconds (or a timedelta).

    Subclass it: `try_complete` checks the condition, `on_complete` and `on_expiration` react.
    Submit it once, with `Purgatory.try_complete_else_watch`. The other methods may be called from
    any thread. Raises TypeError and ValueError for a bad timeout.
    """

    __slots__ = ()

    @property
    def completed(self) -> bool:
        """Whether the operation has completed or expired; the callbacks may be running still."""
        return self._op_outcome is COMPLETED or self._op_outcome is EXPIRED

    def force_complete(self) -> bool:
        """Complete it, condition or not. True for exactly one caller among all enders.

        `on_complete` has run when this returns, with two exceptions. If another thread runs the
        operation's actions (or `try_complete` calls this), the busy thread runs `on_complete` next.
        Called a dozen callbacks deep, `on_complete` runs after these callbacks return.
        """
        check_not_forked(self)
        return finish(self, COMPLETED)

    def cancel(self) -> bool:
        """End the operation uncompleted, off the wheel and watch lists. True if done here."""
        check_not_forked(self)
        return finish(self, CANCELLED)

    def cancelled(self) -> bool:
        """Whether the operation was cancelled."""
        return self._op_outcome is CANCELLED

    def done(self) -> bool:
        """Whether the operation has ended."""
        return self._op_outcome is not None

    def run(self) -> object:
        """Expire; called by the timer's executor."""
        attempts = 0
        while self._op_outcome is None:
            attempts += 1
            try:
                finish(self, EXPIRED)
            except MemoryError:
                if attempts == MAX_ATTEMPTS:
                    raise
        return None

    def _tt_on_close(self) -> None:
        finish(self, CANCELLED)

    def _tt_on_error(self) -> None:
        finish(self, EXPIRED)  # the timer does not call `run` again

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        del key, value
        return request_check(self)

    def _op_count_key(self, key: Hashable, value: object, claim: Claim) -> int:
        del key, value
        if request_check(self, claim if claim.has_unit else None):
            return ENDED
        return IN_DOUBT if claim.is_left else UNAFFECTED

    def __repr__(self) -> str:
        state = "pending" if self._op_outcome is None else str(self._op_outcome)
        return f"<{type(self).__name__} {state}, timeout {self.delay_ms} ms>"


def attach(operation: OperationState, owner: OperationOwner) -> bool:
    """Make an operation belong to a purgatory. False if ended before.

    ValueError if the operation was submitted before.
    """
    attached = False
    try:
        if COMPILED:
            enter(operation)
            attached = _attach(operation, owner)
            leave(operation)
        else:
            with operation._op_lock:
                attached = _attach(operation, owner)
    except BaseException:
        if attached:
            detach(operation)
        raise
    if not attached and (operation._op_outcome is None or operation._op_owner is not None):
        raise ValueError(f"{operation!r} was submitted already; expected a new operation")
    return attached


def _attach(operation: OperationState, owner: OperationOwner) -> bool:
    if operation._op_outcome is not None or operation._op_owner is not None:
        return False
    operation._op_owner = owner
    return True


def detach(operation: OperationState, for_ever: bool = False) -> bool:
    """Make a pending operation belong to no purgatory again. False if ended; the owner stays.

    `for_ever`: end it as cancelled, without a callback.
    """
    if operation._op_lock is None:  # sections are atomic
        return _detach(operation, for_ever)
    with operation._op_lock:
        return _detach(operation, for_ever)


def _detach(operation: OperationState, for_ever: bool) -> bool:
    if operation._op_outcome is not None:
        # Also True if an earlier attempt has detached the operation for ever.
        return operation._op_owner is None and operation._op_stage == UNFINISHED
    operation._op_owner = None
    if for_ever:
        operation._op_outcome = CANCELLED
    return True


def check_not_forked(operation: OperationState) -> None:
    """Raise PurgatoryForked if it belongs to a purgatory from before a fork."""
    owner = operation._op_owner
    if owner is not None:
        owner.check_not_forked()
