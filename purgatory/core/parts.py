"""PurgatoryParts: the parts of a purgatory.

Code about operations and keys (`aio`, `replay`, the service) enters the core here. Any thread.

Each operation refers to its owner. Without the interpreter lock, threads that count the references
to one object wait for each other, so each thread's operations refer to the thread's copy of the
owner.
"""

from typing import Final, cast

from _purgatory_cpython.fork import FORK_COUNTER
from _purgatory_cpython.mypyc_types import i64
from purgatory.core.held_events import HeldEvents
from purgatory.core.operations.operation_state import OperationState
from purgatory.core.outcome_recorder import OutcomeRecorder
from purgatory.core.watch_lists import WatchLists
from timingwheel import Timer
from timingwheel.lowlevel import LOCKED_SECTIONS, TimerCore, add_task, gc_untrack

# Bound once: compiled code looks up no module's dict.
_gc_untrack: Final = gc_untrack

_COPIES: Final = 8  # of the owner; more threads share them. A power of two.


class PurgatoryParts:
    """See the module."""

    def __init__(
        self, owner: OutcomeRecorder, lists: WatchLists, held: HeldEvents, timer: Timer
    ) -> None:
        # Final: compiled without the interpreter lock, these are read without counting a reference.
        self.owner: Final = owner
        self.lists: Final = lists
        self.held: Final = held
        # The compiled class: no operation checks the type.
        self.timer: Final[TimerCore] = timer
        # A subclass may override `add`; else `add_task` is quicker.
        self._add_is_default: bool = type(timer).add is Timer.add
        self._fork_number = i64(FORK_COUNTER.value)
        self._copies: Final[list[OutcomeRecorder | None]] = [None] * _COPIES

    def owner_of(self, operation: OperationState) -> OutcomeRecorder:
        """Return the owner for an operation, by the thread that made it."""
        if not LOCKED_SECTIONS:
            return self.owner
        number = operation._tt_lane & (_COPIES - 1)
        copy = self._copies[number]
        if copy is None:  # two threads may make one each
            copy = self._copies[number] = self.owner.copy()
        return copy

    def start_timeout(self, operation: OperationState) -> None:
        """Add an operation to the timer."""
        if self._add_is_default:
            add_task(self.timer, operation)
        else:
            self.timer.add(operation)
        if self.owner.untracks and operation._op_outcome is None:
            # Atomic with the check: the ending thread tracks it again.
            _gc_untrack(operation)

    def holds_lock(self) -> bool:
        """Return whether the calling thread has a lock of the lists, held events or timer.

        See `Timer.holds_lock`.
        """
        timer = cast("Timer", self.timer)
        return self.lists.holds_lock() or self.held.holds_lock() or timer.holds_lock()

    def check_open(self) -> None:
        """Raise PurgatoryClosed if nothing may be watched any more, PurgatoryForked in a child."""
        if self._fork_number != FORK_COUNTER.value:
            self.owner.check_not_forked()
        if self.lists.closed:
            self.lists.check_open()

    def check_not_drained(self) -> None:
        """Raise PurgatoryClosed if nothing is watched, PurgatoryForked in a child."""
        if self._fork_number != FORK_COUNTER.value:
            self.owner.check_not_forked()
        if self.lists.fully_drained:
            self.lists.check_open()
