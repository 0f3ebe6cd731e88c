"""DelayedOperation: completes exactly once, expires exactly once, or is cancelled; never two.

The story of its lock. An operation is pulled at from all sides: completers check it, the executor
expires it, somebody cancels it, all at once. Its own lock guards a few plain fields and is held for
a few lines without a call, never while user code runs and never together with another lock of
ours. So nothing that a callback does, back into the purgatory, into other operations, for its own
key, can deadlock.

Who decides, and what follows, is in `lifecycle`. Compiled, those few lines are one step (see
``atomicity``) and take no lock at all. They are functions there and here, as is all that is
done for each operation: compiled methods of a class that may be subclassed are looked up at each
call.

Names that begin with ``_op_`` are for this package: subclasses of users have ``_lock``s and
``keys`` of their own, which must not meet ours.
"""

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

from purgatory.core.lifecycle import PENDING, finish, request_check
from purgatory.core.mypyc_types import mypyc_attr
from purgatory.core.outcome import CANCELLED, COMPLETED, EXPIRED, Outcome
from timingwheel import TimerTask
from timingwheel.lowlevel import ATOMIC_SECTIONS

if TYPE_CHECKING:
    from purgatory.core.owner import OperationOwner


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedOperation(TimerTask):
    """What waits for a condition, at most ``timeout`` seconds (or a timedelta).

    Subclass it: `try_complete` checks the condition, `on_complete` and `on_expiration` react.
    Submit it with `Purgatory.try_complete_else_watch`, once. The other methods may be called from
    any thread. Raises TypeError and ValueError for a bad timeout.
    """

    __slots__ = (
        "_op_busy",
        "_op_has_condition",
        "_op_keys",
        "_op_lock",
        "_op_outcome",
        "_op_owner",
        "_op_recheck",
        "_op_sequence",
        "_op_stage",
    )

    _op_sequence: object  # of the watch lists; see `WatchLists.watch`, which sets it first

    def __init__(self, timeout: float | timedelta) -> None:
        super().__init__(timeout)
        self._op_keys: tuple[Hashable, ...] = ()  # being watched; written by the watch lists
        self._op_owner: OperationOwner | None = None
        self._op_has_condition = True  # whether try_complete has anything to say
        # Guards the next three fields, where there are no steps. A leaf: no other lock is taken
        # while it is held.
        self._op_lock: AbstractContextManager[bool] | None = (
            None if ATOMIC_SECTIONS else threading.Lock()
        )
        self._op_outcome: Outcome | None = None
        self._op_busy = False  # a thread is at work on the duties
        self._op_recheck = False  # duty: ask try_complete
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
        check_not_forked(self)
        return finish(self, COMPLETED)

    def cancel(self) -> bool:
        """End it without completing it, off the wheel and off all watch lists. True if it did."""
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
        # The timer has let go of it and calls once, so interrupted it ends all the same. (Not if
        # that is before this line, inline: then it stays on its lists, to be completed or closed.)
        try:
            finish(self, EXPIRED)
        except BaseException:
            finish(self, EXPIRED)
            raise
        return None

    def _tt_on_close(self) -> None:
        """Called by a timer that closes before the timeout: no one is left waiting."""
        try:
            finish(self, CANCELLED)
        except BaseException:
            finish(self, CANCELLED)
            raise

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """React to the completion of a watch key. True if this call completed the operation."""
        del key, value  # a condition of the user's own is asked, whatever was completed
        return request_check(self)

    def _op_on_interrupted(self) -> None:
        """A callback may have been cut short. Those of users are not called twice."""

    def __repr__(self) -> str:
        state = "pending" if self._op_outcome is None else str(self._op_outcome)
        return f"<{type(self).__name__} {state}, timeout {self.delay_ms} ms>"


def attach(operation: DelayedOperation, owner: "OperationOwner") -> bool:
    """Belong to a purgatory from now on; False if it has ended, and stays where it ended.

    ValueError if it waits already.
    """
    attached = False
    try:
        if ATOMIC_SECTIONS:
            attached = _attach(operation, owner)
        else:
            with operation._op_lock:  # type: ignore[union-attr]
                attached = _attach(operation, owner)
    except BaseException:
        if attached:
            detach(operation)
        raise
    if not attached and operation._op_outcome is None:
        raise ValueError(f"{operation!r} was submitted already; expected a new operation")
    return attached


def _attach(operation: DelayedOperation, owner: "OperationOwner") -> bool:
    if operation._op_outcome is not None or operation._op_owner is not None:
        return False
    operation._op_owner = owner
    return True


def detach(operation: DelayedOperation) -> bool:
    """Belong to no purgatory again. False if it has ended, and stays where it ended."""
    if ATOMIC_SECTIONS:
        return _detach(operation)
    with operation._op_lock:  # type: ignore[union-attr]
        return _detach(operation)


def _detach(operation: DelayedOperation) -> bool:
    if operation._op_outcome is not None:
        return False
    operation._op_owner = None
    return True


def check_not_forked(operation: DelayedOperation) -> None:
    """Raise PurgatoryForked if it belongs to a purgatory from before a fork."""
    owner = operation._op_owner
    if owner is not None:
        owner.check_not_forked()
