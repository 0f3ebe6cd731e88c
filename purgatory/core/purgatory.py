"""Purgatory: its methods that submit, complete and cancel, and its figures.

Any thread submits, completes and cancels; the timer's executor expires. Each decision is made under
one lock, that of the watch lists, an operation or the timer, never two at once, and user code runs
under none of them. `submission` and `completion` have what is done for an operation and for a key,
`lifecycle` the race of completion and expiry.

Compiled, hence apart from `start_and_close`, which has the rest of the class.
"""

from collections.abc import Hashable, Iterable
from datetime import timedelta
from typing import Any, Final, overload

from purgatory.bus.commands import CancelForKey, CompleteKey
from purgatory.bus.loop import Bus
from purgatory.core._cpython.mypyc_types import mypyc_attr
from purgatory.core.completion import cancel_for_key, check_key, complete_key
from purgatory.core.deferred import DeferredOperation
from purgatory.core.future import DeferredFuture
from purgatory.core.keyed import KeyedOperation
from purgatory.core.keys import check_need, distinct_keys
from purgatory.core.operation import DelayedOperation, attach
from purgatory.core.outcome_recorder import OutcomeRecorder
from purgatory.core.submission import SubmissionTarget, submit
from purgatory.core.watch_lists import WatchLists
from purgatory.stats import PurgatoryStats
from timingwheel import Timer
from timingwheel.lowlevel import ATOMIC_SECTIONS

# Bound once: compiled, that saves a look into the module's dict for each operation.
_future: Final[type[DeferredFuture]] = DeferredFuture


@mypyc_attr(allow_interpreted_subclasses=True)
class PurgatoryCore:
    """What `Purgatory` inherits: all that is done for each operation and key."""

    def __init__(
        self, name: str, timer: Timer, owner: OutcomeRecorder, lists: WatchLists, bus: Bus
    ) -> None:
        self.name = name
        self.timer = timer
        self._owner = owner
        self._lists = lists
        self._bus = bus
        self._target = SubmissionTarget(owner, lists, timer)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Complete an operation now, or let it wait for its keys until its timeout.

        True if this call completed it. The order is check, watch, check: a completion before the
        watching is seen by the second check, one after it finds the operation in the lists. Keys
        that occur twice count once.

        Raises TypeError and ValueError for bad arguments and an operation that waits already,
        PurgatoryClosed, and TimerFull, which leaves the operation as it was, to be tried again.
        """
        if not isinstance(operation, DelayedOperation):
            raise TypeError(f"operation is {operation!r}; expected a DelayedOperation")
        watch_keys = distinct_keys(keys)
        _check_open(self)
        if isinstance(operation, KeyedOperation):
            check_need(operation.need, len(watch_keys))
        return attach(operation, self._owner) and submit(self._target, operation, watch_keys)

    def check_and_complete(self, key: Hashable) -> int:
        """Call `try_complete` of all operations that watch a key; how many this call completed.

        Raises PurgatoryClosed.
        """
        _check_not_drained(self)
        return check_key(self._lists, key)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch a key, and return them. Raises PurgatoryClosed."""
        _check_not_drained(self)
        return cancel_for_key(self._lists, key)

    @overload
    def defer(self, *keys: Hashable, timeout: float = ..., need: int = ...) -> DeferredFuture: ...
    @overload
    def defer(
        self, *keys: Hashable, timeout: float | timedelta, need: int = ...
    ) -> DeferredFuture: ...
    def defer(self, *keys: Hashable, timeout: Any = 30.0, need: Any = 1) -> DeferredFuture:
        """Return a future that resolves once `need` distinct keys have been completed.

        `timeout` in seconds, or a timedelta. The result is the value of the key, or with need > 1
        a dict key -> value. Raises TypeError and ValueError for bad arguments, TimerFull,
        PurgatoryClosed.
        """
        watch_keys = distinct_keys(keys)
        _check_open(self)
        if type(need) is not int or need != 1:  # any keys can meet that
            check_need(need, len(watch_keys))
        operation = DeferredOperation(timeout, need, watch_keys)
        future: DeferredFuture = _future()
        future._operation = operation
        if not ATOMIC_SECTIONS:
            operation.future = future
        operation._op_owner = self._owner  # `attach`, for an operation that only this thread knows
        try:
            submit(self._target, operation, watch_keys, check_first=False)
        except BaseException:
            operation.future = None  # no cycle is left behind
            raise
        return future

    def complete(self, key: Hashable, value: object = None) -> int:
        """Complete a key: futures that wait for it get `value`, other operations are checked.

        How many operations this call completed. Raises PurgatoryClosed.
        """
        _check_not_drained(self)
        return complete_key(self._lists, key, value)

    def complete_later(self, key: Hashable, value: object = None) -> None:
        """Post a completion to the purgatory's loop, and return at once.

        From any thread, a signal handler or a finalizer. `start` starts the loop; a batch of posts
        is done together, in order for each thread. Raises TypeError for an unhashable key,
        PurgatoryClosed.
        """
        hash(key)
        _check_open(self)
        self._bus.post(CompleteKey(key, value))

    def cancel_later(self, key: Hashable) -> None:
        """Post a `cancel_for_key`, as `complete_later` does a completion."""
        hash(key)
        _check_open(self)
        self._bus.post(CancelForKey(key))

    @property
    def watched(self) -> int:
        """How many pairs of pending operation and watched key there are. Exact, O(1)."""
        return self._lists.entries

    @property
    def delayed(self) -> int:
        """How many operations are pending. Exact, O(1)."""
        return self._lists.pending

    def stats(self) -> PurgatoryStats:
        """Return the figures of this moment. O(1)."""
        lists, mailbox = self._lists, self._bus.mailbox
        return PurgatoryStats(
            name=self.name,
            pending=lists.pending,
            watch_entries=lists.entries,
            watched_keys=len(lists),
            completed=lists.completed,
            expired=lists.expired,
            cancelled=lists.cancelled,
            mailbox_commands=mailbox.sent,
            mailbox_depth=mailbox.depth,
        )

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken."""
        self._lists._check()
        self.timer._check()
        for operation in self._lists.all():
            assert operation._op_outcome is None, operation

    def __repr__(self) -> str:
        return f"<Purgatory {self.name!r}, {self.delayed} pending, {self.watched} watched>"


# Functions, because compiled methods of a class that may be subclassed are looked up at each call.


def _check_open(core: PurgatoryCore) -> None:
    core._owner.check_not_forked()
    core._lists.check_open()


def _check_not_drained(core: PurgatoryCore) -> None:
    core._owner.check_not_forked()
    core._lists.check_not_drained()
