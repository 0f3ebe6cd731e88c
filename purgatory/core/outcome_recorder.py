"""OutcomeRecorder: records how the operations of a single purgatory end, and tells its Journal.

It also reports what user code raises, and closes the purgatory's own timer after the last
operation. Any thread; no method is called while a lock is held.
"""

import logging
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol, cast

from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import (
    JOURNALED,
    OperationOwner,
    OperationState,
    Outcome,
    first_of,
)
from purgatory.core.watch_lists import WatchLists
from timingwheel import Timer, TimerClosed
from timingwheel.lowlevel import extend_task, is_process_exit, to_ns, was_added

log: logging.Logger = logging.getLogger(__name__)

OnError = Callable[[BaseException, DelayedOperation], object]


class Journal(Protocol):
    """Receives each outcome once, from the ending thread."""

    def ended(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Record one outcome. Called under no lock, before the operation's callbacks.

        Must be safe to call from several threads. An exception goes to `on_error`; the operation
        ends all the same.
        """


class OutcomeRecorder(OperationOwner):
    """The owner of a purgatory's operations."""

    def __init__(
        self,
        name: str,
        lists: WatchLists,
        timer: Timer,
        owns_timer: bool,
        on_error: OnError | None,
        journal: Journal | None,
    ) -> None:
        super().__init__(name)
        self._lists: Final = lists
        self._timer: Final = timer
        self._own_timer: Final = timer if owns_timer else None
        # A subclass may override `reschedule`; else `extend_task` is quicker.
        self._timer_reschedule_is_default = type(timer).reschedule is Timer.reschedule
        self._on_error = on_error
        self._journal = journal
        self._has_warned = False  # a race may warn twice

    def copy(self) -> "OutcomeRecorder":
        """Return another for the same purgatory; see `PurgatoryParts.owner_of`."""
        copy = OutcomeRecorder(
            self.name,
            self._lists,
            self._timer,
            self._own_timer is not None,
            self._on_error,
            self._journal,
        )
        copy.first = self
        copy._fork_number = self._fork_number
        return copy

    def warn_if_not_driven(self) -> None:
        timer = self._own_timer
        if timer is None or timer.driven or self._has_warned:
            return
        self._has_warned = True
        warnings.warn(
            f"purgatory {self.name!r} was never started, so nothing expires: call start(), or use "
            "it in a with block",
            RuntimeWarning,
            stacklevel=4,
        )

    def extend(self, operation: OperationState, timeout: float | timedelta) -> bool:
        delay_ns = to_ns(timeout, "timeout")
        self.check_not_forked()
        owner = operation._op_owner  # first: an ended operation may drop it
        if _has_ended(operation):
            return False
        self._lists.check_open()
        if owner is None or first_of(owner) is not first_of(self):
            raise ValueError(f"{operation!r} is not pending in purgatory {self.name!r}")
        try:
            if self._timer_reschedule_is_default:
                extended = extend_task(self._timer, operation, delay_ns)
            else:
                extended = self._timer.reschedule(operation, timeout)
        except TimerClosed:
            self._lists.check_open()  # the purgatory's own error
            raise
        if not (extended or _has_ended(operation) or was_added(operation)):
            raise ValueError(f"{operation!r} is being submitted; its timeout has not begun")
        return extended

    def record_outcome(self, operation: OperationState, outcome: Outcome) -> None:
        error = self._lists.release(operation, outcome)
        if error is not None:
            self.report(error, operation)
        if self._lists.closed and self._own_timer is not None and self._lists.fully_drained:
            # Its reaper may sleep until a deadline that no longer matters.
            self._own_timer.close(wait=False, cancel_pending=False)
        if self._journal is not None and operation._op_stage < JOURNALED:
            try:
                # No call in between, not of `cast` either: an interrupt finds both done or neither.
                operation._op_stage = JOURNALED
                self._journal.ended(operation, outcome)  # type: ignore[arg-type]
            except BaseException as error:  # noqa: BLE001  # user code
                self.report(error, operation)

    def report(self, error: BaseException, operation: OperationState) -> None:
        """Report an exception of user code to `on_error`, or log it; raise an exit."""
        if is_process_exit(error):
            raise error
        if self._on_error is None:
            log.error("%r of purgatory %r raised", operation, self.name, exc_info=error)
            return
        try:
            self._on_error(error, cast("DelayedOperation", operation))
        except BaseException as another:
            if is_process_exit(another):
                raise
            log.exception("on_error of purgatory %r raised", self.name)


def _has_ended(operation: OperationState) -> bool:
    # A function: compiled, a field once None is taken for None from there on.
    return operation._op_outcome is not None
