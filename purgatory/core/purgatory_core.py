"""PurgatoryCore: the methods of `Purgatory` that submit, complete and cancel, and its stats.

Any thread. Each decision is made under one lock, that of the watch lists, an operation or the
timer, never two at once, and user code runs under none of them. Compiled.
"""

from collections.abc import Hashable, Iterable
from contextvars import Context
from datetime import timedelta
from typing import Any, Final, overload

from _purgatory_cpython.mypyc_types import mypyc_attr
from purgatory.bus.commands import CancelForKey, CompleteKey, FailKey
from purgatory.bus.loop import Bus
from purgatory.core.completion import cancel_for_key, check_key, complete, fail_key
from purgatory.core.held_events import check_limit
from purgatory.core.keys import check_need, distinct_keys
from purgatory.core.operations.deferred import DeferredOperation
from purgatory.core.operations.future import ContextFuture, DeferredFuture
from purgatory.core.operations.keyed import KeyedOperation
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import exception_of, timeout_error
from purgatory.core.parts import PurgatoryParts
from purgatory.core.submission import submit
from purgatory.registry import PurgatoryStats
from timingwheel import Timer
from timingwheel.lowlevel import check_initialized, to_ns

# Bound once: compiled code looks up no module's dict.
_future: Final[type[DeferredFuture]] = DeferredFuture

#: How often `stats` reads at most, while other threads end operations.
_READINGS: Final = 8


@mypyc_attr(allow_interpreted_subclasses=True)
class PurgatoryCore:
    """The methods of `Purgatory` for operations and keys."""

    def __init__(self, name: str, timer: Timer, parts: PurgatoryParts, bus: Bus) -> None:
        self.name = name
        self.timer = timer
        # Final: see `timingwheel.timer_core`.
        self._parts: Final = parts
        self._bus: Final = bus

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """Complete an operation now, or let the operation wait for keys until the timeout.

        Returns True if this call completed the operation. Checks the condition before and after the
        operation enters the watch lists, so that no completion is missed.

        Raises TypeError and ValueError for bad arguments and an operation that waits already,
        PurgatoryClosed, and TimerFull, which leaves the operation as it was, to be tried again.
        """
        if not isinstance(operation, DelayedOperation):
            raise TypeError(f"operation is {operation!r}; expected a DelayedOperation")
        watch_keys = distinct_keys(keys)
        self._parts.check_open()
        try:
            if isinstance(operation, KeyedOperation):
                check_need(operation.need, len(watch_keys))
            return submit(self._parts, operation, watch_keys)
        except AttributeError:
            check_initialized(operation)
            raise

    def check_and_complete(self, key: Hashable) -> int:
        """Call `try_complete` of a key's operations; return how many this call completed.

        Raises PurgatoryClosed.
        """
        self._parts.check_not_drained()
        return check_key(self._parts, key)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations watching a key; return them."""
        self._parts.check_not_drained()
        return cancel_for_key(self._parts, key)

    @overload
    def defer(
        self, *keys: Hashable, timeout: float = ..., need: int = ..., context: Context | None = ...
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
        self._parts.check_open()
        if type(need) is not int or need != 1:  # any keys can meet that
            need = check_need(need, len(watch_keys))
        try:
            operation = DeferredOperation(timeout, need, watch_keys)
        except (TypeError, ValueError) as error:
            raise timeout_error(error, timeout) from None
        future: DeferredFuture = _future() if context is None else _context_future(context)
        future._operation = operation
        try:
            submit(self._parts, operation, watch_keys, is_internal=True)
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
        """Complete a key: waiting futures get `value`, other operations are checked.

        `limit`: count for at most so many operations, the longest waiting first; ended
        and unaffected operations do not count. `hold`: for so many seconds (or a timedelta) the
        event also counts for operations submitted later; `limit` bounds both together. A
        held event of the key is replaced, even without `hold`. A thread that is checking an
        operation checks again, then offers a limited event to the next. Returns how many operations
        this call completed. Raises TypeError and ValueError for bad arguments, HeldFull if
        `max_held` events are held, TimerFull, PurgatoryClosed; then nothing is done.
        """
        return complete(self._parts, key, value, limit, hold)

    def complete_later(
        self,
        key: Hashable,
        value: object = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> None:
        """Post a completion to the purgatory's loop, and return at once.

        From any thread, a signal handler or a finalizer. `start` starts the loop, which does posts
        in order for each thread. `hold` counts from then; if too many events are held then, that is
        logged, and nothing is completed. Raises TypeError and ValueError for bad arguments,
        PurgatoryClosed.
        """
        hash(key)
        self._parts.check_open()
        self._bus.post(CompleteKey(key, value, check_limit(limit), to_ns(hold, "hold")))

    def fail(self, key: Hashable, error: Exception | type[Exception]) -> int:
        """Fail a key: waiting futures raise `error`, other operations are checked.

        A future of several keys fails whatever its need, unless the failed key has already counted.
        `error`: an Exception, shared by all, or a class, instantiated for each. A held event of the
        key stays. Returns how many operations this call ended. Raises TypeError for a bad error,
        PurgatoryClosed.
        """
        first = exception_of(error, Exception)
        self._parts.check_not_drained()
        return fail_key(self._parts, key, error, first)

    def fail_later(self, key: Hashable, error: Exception | type[Exception]) -> None:
        """Post a `fail`, as `complete_later` does a completion."""
        hash(key)
        first = exception_of(error, Exception)
        self._parts.check_open()
        self._bus.post(FailKey(key, error, first))

    def extend(self, operation: DelayedOperation, timeout: float | timedelta) -> bool:
        """Restart the timeout of an operation from now; False if it has ended.

        `timeout`: seconds or a timedelta; less than the remaining time is allowed. The operation
        keeps its place among its keys' watchers, and `delay_ms` still counts from submission.
        Raises TypeError and ValueError for a bad timeout, ValueError for an operation that was not
        submitted to this purgatory, or is just being submitted, PurgatoryClosed. For futures:
        `DeferredFuture.extend`.
        """
        if not isinstance(operation, DelayedOperation):
            raise TypeError(f"operation is {operation!r}; expected a DelayedOperation")
        try:
            return self._parts.owner.extend(operation, timeout)
        except AttributeError:
            check_initialized(operation)
            raise

    def cancel_later(self, key: Hashable) -> None:
        """Post a `cancel_for_key`, as `complete_later` does a completion."""
        hash(key)
        self._parts.check_open()
        self._bus.post(CancelForKey(key))

    @property
    def watched(self) -> int:
        """How many pairs of pending operation and watched key there are. O(1).

        Exact; without the interpreter lock, approximate beside changing threads.
        """
        return self._parts.lists.entries

    @property
    def delayed(self) -> int:
        """How many operations are pending. O(1); exact as `watched` is."""
        return self._parts.lists.pending

    def stats(self) -> PurgatoryStats:
        """Return the present figures. O(1)."""
        lists, mailbox = self._parts.lists, self._bus.mailbox
        # Without a lock, which a thread that fork() left behind may hold.
        for _ in range(_READINGS):
            outcomes, pending = lists.outcomes(), lists.pending
            if lists.outcomes() == outcomes:
                break
        completed, failed, expired, cancelled = outcomes
        return PurgatoryStats(
            name=self.name,
            pending=pending,
            watch_entries=lists.entries,
            watched_keys=len(lists),
            held=len(self._parts.held),
            completed=completed,
            failed=failed,
            expired=expired,
            cancelled=cancelled,
            mailbox_commands=mailbox.sent,
            mailbox_depth=mailbox.depth,
        )

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has operations and threads")

    def _check(self) -> None:
        self._parts.lists._check()
        self._parts.held._check()
        self.timer._check()
        for operation in self._parts.lists.all():
            assert operation._op_outcome is None, operation

    def __repr__(self) -> str:
        return f"<Purgatory {self.name!r}, {self.delayed} pending, {self.watched} watched>"


def _context_future(context: object) -> DeferredFuture:
    if not isinstance(context, Context):
        raise TypeError(f"context is {context!r}; expected a contextvars.Context or None")
    future: ContextFuture = ContextFuture()
    future._context = context
    return future


def parts_of(purgatory: PurgatoryCore) -> PurgatoryParts:
    """Return the parts of a purgatory, for what builds on the core."""
    return purgatory._parts


def bus_of(purgatory: PurgatoryCore) -> Bus:
    """Return what the loop of a purgatory sleeps on."""
    return purgatory._bus
