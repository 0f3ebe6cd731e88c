"""PurgatoryCore: the methods of `Purgatory` that submit, complete and cancel, and its stats.

Any thread submits, completes and cancels; the timer's executor expires. Each decision is made under
one lock, that of the watch lists, an operation or the timer, never two at once, and user code runs
under none of them. `submission` and `completion` have what is done for an operation and for a key,
`lifecycle` the race of completion and expiry.

Compiled, hence apart from `purgatory`, which has the rest of the class.
"""

from collections.abc import Hashable, Iterable
from contextvars import Context
from datetime import timedelta
from typing import Any, Final, overload

from _purgatory_cpython.mypyc_types import mypyc_attr
from purgatory.bus.commands import CancelForKey, CompleteKey, FailKey
from purgatory.bus.loop import Bus
from purgatory.core.completion import cancel_for_key, check_key, complete, complete_key, fail_key
from purgatory.core.held_events import HeldEvents, check_limit
from purgatory.core.keys import check_need, distinct_keys
from purgatory.core.operations.deferred import DeferredOperation
from purgatory.core.operations.future import ContextFuture, DeferredFuture
from purgatory.core.operations.keyed import KeyedOperation
from purgatory.core.operations.operation import DelayedOperation, attach
from purgatory.core.operations.operation_state import FORK_COUNTER
from purgatory.core.outcome_recorder import OutcomeRecorder, OutcomeRecorders
from purgatory.core.submission import SubmissionTarget, submit
from purgatory.core.watch_lists import WatchLists
from purgatory.registry import PurgatoryStats
from timingwheel import Timer
from timingwheel.lowlevel import to_ns

# Bound once: compiled, that saves a look into the module's dict for each operation.
_future: Final[type[DeferredFuture]] = DeferredFuture


@mypyc_attr(allow_interpreted_subclasses=True)
class PurgatoryCore:
    """What `Purgatory` inherits: all that is done for each operation and key."""

    def __init__(
        self,
        name: str,
        timer: Timer,
        owner: OutcomeRecorder,
        lists: WatchLists,
        held: HeldEvents,
        bus: Bus,
    ) -> None:
        self.name = name
        self.timer = timer
        # The owner has it as well, but threads count references to that one: see `timer_core`.
        self._fork_number = FORK_COUNTER.value
        # Final: see `timingwheel.timer_core`.
        self._owner: Final = owner
        self._owners: Final = OutcomeRecorders(owner)
        self._lists: Final = lists
        self._held: Final = held
        self._bus: Final = bus
        self._target: Final = SubmissionTarget(owner, lists, held, timer)

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
        owner = self._owners.of(operation)
        return attach(operation, owner) and submit(self._target, operation, watch_keys)

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
    def defer(
        self,
        *keys: Hashable,
        timeout: float = ...,
        need: int = ...,
        context: Context | None = ...,
    ) -> DeferredFuture: ...
    @overload
    def defer(
        self,
        *keys: Hashable,
        timeout: float | timedelta,
        need: int = ...,
        context: Context | None = ...,
    ) -> DeferredFuture: ...
    def defer(
        self, *keys: Hashable, timeout: Any = 30.0, need: Any = 1, context: Any = None
    ) -> DeferredFuture:
        """Return a future that resolves once `need` distinct keys have been completed.

        `timeout` in seconds, or a timedelta. The result is the value of the key, or with need > 1
        a dict key -> value. `context`: a `contextvars.Context`; the future's callbacks run in
        copies of it. Raises TypeError and ValueError for bad arguments, TimerFull, PurgatoryClosed.
        """
        watch_keys = distinct_keys(keys)
        _check_open(self)
        if type(need) is not int or need != 1:  # any keys can meet that
            check_need(need, len(watch_keys))
        operation = DeferredOperation(timeout, need, watch_keys)
        future: DeferredFuture = _future() if context is None else _context_future(context)
        future._operation = operation
        # `attach`, for an operation that only this thread knows
        operation._op_owner = self._owners.of(operation)
        try:
            submit(self._target, operation, watch_keys, is_internal=True)
        except BaseException:
            operation.future = None  # no cycle is left behind
            raise
        return future

    @overload
    def complete(
        self, key: Hashable, value: object = ..., *, limit: int | None = ..., hold: float = ...
    ) -> int: ...
    @overload
    def complete(
        self, key: Hashable, value: object = ..., *, limit: int | None = ..., hold: timedelta
    ) -> int: ...
    def complete(
        self, key: Hashable, value: object = None, *, limit: Any = None, hold: Any = 0.0
    ) -> int:
        """Complete a key: futures that wait for it get `value`, other operations are checked.

        `limit`: it counts for at most so many operations, the longest waiting first; those that it
        neither completes nor brings nearer are left out. `hold`: for so many seconds (or a
        timedelta) it also counts for operations submitted later, as if it came then; `limit` bounds
        both together. It replaces what is held for the key, without `hold` too. How many operations
        this call completed. Raises TypeError and ValueError for bad arguments, HeldFull if
        `max_held` events are held, TimerFull, PurgatoryClosed; then nothing is done.
        """
        _check_not_drained(self)
        if limit is None and type(hold) is float and not hold and not self._held.holds:
            return complete_key(self._lists, key, value)
        return complete(self._lists, self._held, key, value, check_limit(limit), to_ns(hold))

    def complete_later(
        self,
        key: Hashable,
        value: object = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> None:
        """Post a completion to the purgatory's loop, and return at once.

        From any thread, a signal handler or a finalizer. `start` starts the loop; a batch of posts
        is done together, in order for each thread. `hold` counts from then; if too many events are
        held then, that is logged, and nothing is completed. Raises TypeError and ValueError for bad
        arguments, PurgatoryClosed.
        """
        hash(key)
        _check_open(self)
        self._bus.post(CompleteKey(key, value, check_limit(limit), to_ns(hold)))

    def fail(self, key: Hashable, error: Exception | type[Exception]) -> int:
        """Fail a key: futures that wait for it raise `error`, other operations are checked.

        A future of several keys fails whatever its need, unless this key has been completed.
        `error`: an Exception, or a class of them. What is held for the key stays. How many
        operations this call ended. Raises TypeError for a bad error, PurgatoryClosed.
        """
        exception = _to_exception(error)
        _check_not_drained(self)
        return fail_key(self._lists, key, exception)

    def fail_later(self, key: Hashable, error: Exception | type[Exception]) -> None:
        """Post a `fail`, as `complete_later` does a completion."""
        hash(key)
        exception = _to_exception(error)
        _check_open(self)
        self._bus.post(FailKey(key, exception))

    def extend(self, operation: DelayedOperation, timeout: float | timedelta) -> bool:
        """Let the timeout of an operation count anew from now; False if it has ended.

        `timeout`: seconds or a timedelta; shorter than what is left will do. The operation keeps
        its place among those that wait for its keys. Its `delay_ms` still counts from its
        submission. Raises TypeError and ValueError for a bad timeout, ValueError for an operation
        that was not submitted to this purgatory, or is just being submitted, PurgatoryClosed. For
        futures: `DeferredFuture.extend`.
        """
        if not isinstance(operation, DelayedOperation):
            raise TypeError(f"operation is {operation!r}; expected a DelayedOperation")
        return self._owner.extend(operation, timeout)

    def cancel_later(self, key: Hashable) -> None:
        """Post a `cancel_for_key`, as `complete_later` does a completion."""
        hash(key)
        _check_open(self)
        self._bus.post(CancelForKey(key))

    @property
    def watched(self) -> int:
        """How many pairs of pending operation and watched key there are. O(1).

        Exact; without the interpreter lock, while other threads change it, about right.
        """
        return self._lists.entries

    @property
    def delayed(self) -> int:
        """How many operations are pending. O(1); exact as `watched` is."""
        return self._lists.pending

    def stats(self) -> PurgatoryStats:
        """Return the figures of this moment. O(1)."""
        lists, mailbox = self._lists, self._bus.mailbox
        return PurgatoryStats(
            name=self.name,
            pending=lists.pending,
            watch_entries=lists.entries,
            watched_keys=len(lists),
            held=len(self._held),
            completed=lists.completed,
            failed=lists.failed,
            expired=lists.expired,
            cancelled=lists.cancelled,
            mailbox_commands=mailbox.sent,
            mailbox_depth=mailbox.depth,
        )

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken."""
        self._lists._check()
        self._held._check()
        self.timer._check()
        for operation in self._lists.all():
            assert operation._op_outcome is None, operation

    def __repr__(self) -> str:
        return f"<Purgatory {self.name!r}, {self.delayed} pending, {self.watched} watched>"


def _context_future(context: object) -> DeferredFuture:
    if not isinstance(context, Context):
        raise TypeError(f"context is {context!r}; expected a contextvars.Context or None")
    future: ContextFuture = ContextFuture()
    future._context = context
    return future


def _to_exception(error: object) -> Exception:
    """Return an exception, made if `error` is a class of them. Raises TypeError for others."""
    made = error() if isinstance(error, type) and issubclass(error, Exception) else error
    if not isinstance(made, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return made


# Functions, because compiled methods of a class that may be subclassed are looked up at each call.


def _check_open(core: PurgatoryCore) -> None:
    if core._fork_number != FORK_COUNTER.value:
        core._owner.check_not_forked()
    core._lists.check_open()


def _check_not_drained(core: PurgatoryCore) -> None:
    if core._fork_number != FORK_COUNTER.value:
        core._owner.check_not_forked()
    core._lists.check_not_drained()
