"""Submission of an operation: check, watch, check again, start its timeout; or take it all back.

A completion before the watching is seen by the second check, one after it finds the operation in
the lists. After the second check, events that are held count. For `purgatory_core`; any
thread.
"""

from collections.abc import Hashable
from typing import Final

from purgatory.core.completion import count_held
from purgatory.core.held_events import HeldEvents
from purgatory.core.operations.lifecycle import MAX_ATTEMPTS, request_check
from purgatory.core.operations.operation import DelayedOperation, detach
from purgatory.core.operations.operation_state import OperationOwner
from purgatory.core.watch_lists import WatchLists
from purgatory.errors import PurgatoryClosed
from timingwheel import Timer, TimerClosed, TimerError, TimerTask
from timingwheel.lowlevel import (
    ATOMIC_SECTIONS,
    COMPILED,
    LOCKED_SECTIONS,
    TimerCore,
    add_task,
    gc_untrack,
)

# Bound once: compiled, that saves a look into the module's dict for each operation.
_gc_untrack: Final = gc_untrack


class SubmissionTarget:
    """What an operation is submitted to: the parts of one purgatory."""

    def __init__(
        self, owner: OperationOwner, lists: WatchLists, held: HeldEvents, timer: Timer
    ) -> None:
        self.owner: Final = owner
        self.lists: Final = lists
        self.held: Final = held
        # As what is compiled: else its type is checked for each operation, and references counted.
        self.timer: Final[TimerCore] = timer
        # Whether `add_task` does what the timer's `add` does: a subclass may override that.
        self.timer_add_is_default: bool = type(timer).add is Timer.add


def submit(
    target: SubmissionTarget,
    operation: DelayedOperation,
    keys: tuple[Hashable, ...],
    is_internal: bool = False,
) -> bool:
    """Submit an operation that is attached to the owner. True if this call completed it.

    `is_internal`: the program does not see it before this returns, and only keys complete it.
    """
    try:
        if not is_internal and request_check(operation):
            return True
        target.lists.watch(operation, keys)
        if request_check(operation):
            _leave_lists(target, operation)
            return True
        if target.held.holds and count_held(target.lists, target.held, operation, keys):
            _leave_lists(target, operation)
            return True
        if operation._op_outcome is None:
            if COMPILED and target.timer_add_is_default:
                add_task(target.timer, operation)
            else:
                target.timer.add(operation)
    except BaseException as error:
        if _roll_back(target, operation, error, is_internal):
            raise
    # It may have ended since the checks, when it was not yet on all that it is on now.
    if operation._op_outcome is not None:
        target.lists.remove(operation)
        TimerTask.cancel(operation)
    elif ATOMIC_SECTIONS and target.owner.untracks:
        # Atomic with the check: the thread that ends it from now on tracks it again.
        _gc_untrack(operation)
    return False


def _leave_lists(target: SubmissionTarget, operation: DelayedOperation) -> None:
    """Take an operation off its lists if another thread ended it before it was on them."""
    if LOCKED_SECTIONS and operation._op_keys:
        target.lists.remove(operation)


def _roll_back(
    target: SubmissionTarget, operation: DelayedOperation, error: BaseException, is_internal: bool
) -> bool:
    """Take back a submission that failed. False if the operation has ended all the same."""
    attempts = 0
    while True:
        attempts += 1
        try:
            return _try_roll_back(target, operation, error, is_internal)
        except MemoryError:  # what it has done is done: the next attempt goes on
            if attempts == MAX_ATTEMPTS:
                raise


def _try_roll_back(
    target: SubmissionTarget, operation: DelayedOperation, error: BaseException, is_internal: bool
) -> bool:
    target.lists.remove(operation)
    if not isinstance(error, TimerError):  # that says that it was not added
        TimerTask.cancel(operation)
    # An internal one ends: a thread that has found it on a list must not waste a limited event on
    # it. Another one may be submitted again, or ended by that thread meanwhile, and told so.
    pending = detach(operation, for_ever=is_internal)
    if pending and isinstance(error, TimerClosed) and target.lists.closed:
        raise PurgatoryClosed(f"purgatory {target.owner.name!r} is closed") from error
    return pending or not isinstance(error, Exception)
