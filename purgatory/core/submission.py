"""PurgatoryCore: the busy half of a Purgatory, what is done for each operation and each completion.

It is apart from the other half because it is compiled; `Purgatory` is interpreted and adds what is
rare. Any thread.
"""

from collections.abc import Hashable, Iterable
from datetime import timedelta
from typing import Any, Final, overload

from purgatory.core.deferred import DeferredOperation
from purgatory.core.future import DeferredFuture
from purgatory.core.keyed import KeyedOperation
from purgatory.core.keys import check_need, distinct_keys
from purgatory.core.lifecycle import request_check
from purgatory.core.mypyc_types import mypyc_attr
from purgatory.core.operation import DelayedOperation, attach, detach
from purgatory.core.owner import OperationOwner
from purgatory.errors import PurgatoryClosed
from timingwheel import Timer, TimerClosed, TimerError, TimerTask
from timingwheel.lowlevel import ATOMIC_SECTIONS, add_task, gc_untrack

# Bound once: compiled, that saves a look into the module's dict for each operation.
_gc_untrack: Final = gc_untrack
_future: Final[type[DeferredFuture]] = DeferredFuture


@mypyc_attr(allow_interpreted_subclasses=True)
class PurgatoryCore:
    """What `Purgatory` inherits."""

    def __init__(self, name: str, timer: Timer, owner: OperationOwner) -> None:
        self.name = name
        self.timer = timer
        self._owner = owner
        self._lists = owner.lists
        # Whether an operation may be added to the timer without asking which `add` that is.
        self._timer_add_is_default = type(timer).add is Timer.add

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
        return attach(operation, self._owner) and _submit(self, operation, watch_keys)

    def check_and_complete(self, key: Hashable) -> int:
        """Ask `try_complete` of all operations that watch a key; how many this call completed.

        Raises PurgatoryClosed.
        """
        _check_not_drained(self)
        if ATOMIC_SECTIONS and (one := self._lists.sole_watcher(key)) is not None:
            return 1 if request_check(one) else 0
        completed = 0
        for operation in self._lists.watchers_of(key):
            if request_check(operation):
                completed += 1
        return completed

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch a key, and return them. Raises PurgatoryClosed."""
        _check_not_drained(self)
        return self._lists.cancel(key)

    @overload
    def defer(self, *keys: Hashable, timeout: float = ..., need: int = ...) -> DeferredFuture: ...
    @overload
    def defer(
        self, *keys: Hashable, timeout: float | timedelta, need: int = ...
    ) -> DeferredFuture: ...
    def defer(self, *keys: Hashable, timeout: Any = 30.0, need: Any = 1) -> DeferredFuture:
        """Return a future that resolves once ``need`` distinct keys have been completed.

        ``timeout`` in seconds, or a timedelta. The result is the value of the key, or with need > 1
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
        try:
            attach(operation, self._owner)
            _submit(self, operation, watch_keys, ask=False)
        except BaseException:
            operation.future = None  # no cycle is left behind
            raise
        return future

    def complete(self, key: Hashable, value: object = None) -> int:
        """Complete a key: futures that wait for it get ``value``, other operations are checked.

        How many operations this call completed. Raises PurgatoryClosed.
        """
        _check_not_drained(self)
        return self._lists.complete(key, value)

    @property
    def watched(self) -> int:
        """How many pairs of pending operation and watched key there are. Exact, O(1)."""
        return self._lists.entries

    @property
    def delayed(self) -> int:
        """How many operations are pending. Exact, O(1)."""
        return self._lists.pending


# Functions, because compiled methods of a class that may be subclassed are looked up at each call.


def _submit(
    core: PurgatoryCore, operation: DelayedOperation, keys: tuple[Hashable, ...], ask: bool = True
) -> bool:
    try:
        if ask and request_check(operation):
            return True
        core._lists.watch(operation, keys)
        if request_check(operation):
            return True
        if operation._op_outcome is None:
            if ATOMIC_SECTIONS and core._timer_add_is_default:
                add_task(core.timer, operation)
            else:
                core.timer.add(operation)
    except BaseException as error:  # which raises it again
        if _roll_back_submission(core, operation, error):
            raise
    # Since the questions it may have ended, and found less to leave than there is now.
    if operation._op_outcome is not None:
        core._lists.remove(operation)
        TimerTask.cancel(operation)
    elif ATOMIC_SECTIONS and core._owner.untracks:
        # One step with that question: who ends it from now on shows it.
        _gc_untrack(operation)
    return False


def _roll_back_submission(
    core: PurgatoryCore, operation: DelayedOperation, error: BaseException
) -> bool:
    """Take back a submission that failed. False if the operation has ended all the same."""
    core._lists.remove(operation)
    if not isinstance(error, TimerError):  # which says that it was not added
        TimerTask.cancel(operation)
    waits = detach(operation)
    if waits and isinstance(error, TimerClosed) and core._lists.closed:
        raise PurgatoryClosed(f"purgatory {core.name!r} is closed") from error
    return waits or not isinstance(error, Exception)


def _check_open(core: PurgatoryCore) -> None:
    core._owner.check_not_forked()
    core._lists.check_open()


def _check_not_drained(core: PurgatoryCore) -> None:
    core._owner.check_not_forked()
    core._lists.check_not_drained()
