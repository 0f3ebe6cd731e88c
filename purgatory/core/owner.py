"""OperationOwner: what a purgatory is to its operations.

They know it, and not the purgatory: one that nobody names any more is freed, whatever still waits.
Any thread; nothing here is called while a lock is held.
"""

import logging
from collections.abc import Callable
from typing import Final

from purgatory.core.journal import Journal
from purgatory.core.lifecycle import JOURNALED
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome
from purgatory.core.watch_lists import WatchLists
from purgatory.errors import PurgatoryForked
from timingwheel import Timer
from timingwheel.lowlevel import UNTRACKS_FROM_GC

log = logging.getLogger(__name__)

OnError = Callable[[BaseException, DelayedOperation], object]


class ForkCounter:
    """How many forks lie between the first process and this one."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


FORK_COUNTER: Final = ForkCounter()


class OperationOwner:
    """One a purgatory; see the module."""

    def __init__(
        self, name: str, own_timer: Timer | None, on_error: OnError | None, journal: Journal | None
    ) -> None:
        self.name = name
        self._own_timer = own_timer
        self.lists = WatchLists(name)
        self._fork_number = FORK_COUNTER.count
        self._on_error = on_error
        self._journal = journal
        # Whether pending operations are kept from the cycle collector; once True it stays so. Where
        # there are no steps nobody asks. Only while a reaper runs: its thread holds the timer, and
        # that holds them, so there is nothing to find out about them. It ends when the timer is
        # closed, which ends all of them. Without it, timer and operations may be garbage together,
        # as their cycles go through both.
        self.untracks = False

    def enable_gc_untracking(self) -> None:
        """Keep what is submitted from the collector. Only when the timer's reaper has started."""
        self.untracks = UNTRACKS_FROM_GC

    @property
    def forked(self) -> bool:
        """Whether this is a forked child, and the purgatory its parent's."""
        return self._fork_number != FORK_COUNTER.count

    def check_not_forked(self) -> None:
        """Raise PurgatoryForked in a forked child."""
        if self._fork_number != FORK_COUNTER.count:
            raise PurgatoryForked(
                f"purgatory {self.name!r} was made before fork; make one in this process"
            )

    def release(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Take an operation that has ended off all watch lists, count and record its outcome.

        Goes on where an interrupt ended it when called again.
        """
        error = self.lists.release(operation, outcome)
        if error is not None:
            self.report(error, operation)
        if self.lists.closed and self._own_timer is not None and self.lists.fully_drained:
            # Its reaper may be asleep until a deadline that does not matter any more.
            self._own_timer.close(wait=False, cancel_pending=False)
        if self._journal is not None and operation._op_stage < JOURNALED:
            try:
                # No call between these: an interrupt finds both done or neither.
                operation._op_stage = JOURNALED
                self._journal.ended(operation, outcome)
            except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
                self.report(error, operation)

    def report(self, error: Exception, operation: DelayedOperation) -> None:
        """Tell ``on_error`` of an exception in user code."""
        if self._on_error is None:
            log.error("%r of purgatory %r raised", operation, self.name, exc_info=error)
            return
        try:
            self._on_error(error, operation)
        except Exception:
            log.exception("on_error of purgatory %r raised", self.name)
