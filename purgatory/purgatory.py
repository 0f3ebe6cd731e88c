"""Purgatory: what waits for keys, with a deadline each.

Any thread submits, completes, cancels; the timer's executor expires. Each step is decided under
one lock, the watch lists', an operation's or the timer's, never two at once, and user code runs
under none of them. See ``operation`` for how an operation ends exactly once, and ``watchers`` for
why its memory is exact.
"""

import logging
import os
import weakref
from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry

from purgatory import metrics
from purgatory.errors import PurgatoryForked
from purgatory.future import DeferredFuture, DeferredOperation
from purgatory.journal import Journal
from purgatory.keyed import check_need, distinct_keys
from purgatory.operation import DelayedOperation, Outcome
from purgatory.stats import PurgatoryStats
from purgatory.watchers import WatchLists
from timingwheel import Timer

log = logging.getLogger(__name__)

OnError = Callable[[BaseException, DelayedOperation], object]


class _Keeper:
    """What a purgatory is to its operations; see `purgatory.operation.Keeper`."""

    def __init__(self, name: str, on_error: OnError | None, journal: Journal | None) -> None:
        self.name = name
        self.lists = WatchLists(name)
        self.forked = False
        self._on_error = on_error
        self._journal = journal

    def refuse_in_child(self) -> None:
        if self.forked:
            raise PurgatoryForked(
                f"purgatory {self.name!r} was made before fork; make one in this process"
            )

    def release(self, operation: DelayedOperation, outcome: Outcome) -> None:
        self.lists.release(operation, outcome)
        if self._journal is not None:
            try:
                self._journal.ended(operation, outcome)
            except Exception as error:  # noqa: BLE001  # whatever user code raises is reported
                self.report(error, operation)

    def report(self, error: Exception, operation: DelayedOperation) -> None:
        if self._on_error is None:
            log.error("%r of purgatory %r raised", operation, self.name, exc_info=error)
            return
        try:
            self._on_error(error, operation)
        except Exception:
            log.exception("on_error of purgatory %r raised", self.name)


class Purgatory:
    """Holds delayed operations until a watch key completes them or their timeout passes.

    ``timer``: one that others may share, which is then neither started nor closed here; None: one
    of its own, ``p.timer``. ``on_error(exc, operation)``: told of exceptions in user code; default:
    they are logged. ``journal``: told of each outcome. ``registry``: a Prometheus registry to show
    the metrics in.

    With a timer of its own nothing expires until it is started: ``with Purgatory() as p`` starts
    and closes it. All methods may be called from any thread, and from callbacks.
    """

    def __init__(
        self,
        name: str = "purgatory",
        *,
        timer: Timer | None = None,
        on_error: OnError | None = None,
        journal: Journal | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        if timer is not None and not isinstance(timer, Timer):
            raise TypeError(f"timer is {timer!r}; expected a Timer or None")
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error is {on_error!r}; expected a callable or None")
        self.timer = Timer(name) if timer is None else timer
        self.name = name
        self._owns_timer = timer is None
        self._keeper = _Keeper(name, on_error, journal)
        self._lists = self._keeper.lists
        self._registry = registry
        if registry is not None:
            metrics.register(self, registry)
        _purgatories.add(self)

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
        self._refuse_if_closed()
        operation._op_enter(self._keeper)
        return operation._op_attempt() or self._watch(operation, watch_keys)

    def _watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> bool:
        try:
            self._lists.watch(operation, keys)
            if operation._op_attempt():
                return True
            if operation._op_outcome is None:
                self.timer.add(operation)
        except BaseException:
            self._lists.remove(operation)
            if operation._op_withdraw():
                raise
            return False
        # Between the question and the add it may have ended, and found nothing to cancel.
        if operation._op_outcome is not None:
            operation._op_leave_timer()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Ask `try_complete` of all operations that watch a key; how many this call completed.

        Raises PurgatoryClosed.
        """
        self._refuse_if_ended()
        return sum(operation._op_attempt() for operation in self._lists.watching(key))

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch a key, and return them. Raises PurgatoryClosed."""
        self._refuse_if_ended()
        return [operation for operation in self._lists.watching(key) if operation.cancel()]

    def defer(
        self, *keys: Hashable, timeout: float | timedelta = 30.0, need: int = 1
    ) -> DeferredFuture:
        """Return a future that resolves once ``need`` distinct keys have been completed.

        ``timeout`` in seconds, or a timedelta. The result is the value of the key, or with need > 1
        a dict key -> value. Raises TypeError and ValueError for bad arguments, TimerFull,
        PurgatoryClosed.
        """
        watch_keys = distinct_keys(keys)
        check_need(need, len(watch_keys))
        self._refuse_if_closed()
        operation = DeferredOperation(timeout, need, watch_keys)
        operation._op_enter(self._keeper)
        self._watch(operation, watch_keys)
        return operation.future

    def complete(self, key: Hashable, value: object = None) -> int:
        """Complete a key: futures that wait for it get ``value``, other operations are checked.

        How many operations this call completed. Raises PurgatoryClosed.
        """
        self._refuse_if_ended()
        return sum(
            operation._op_complete_key(key, value) for operation in self._lists.watching(key)
        )

    @property
    def watched(self) -> int:
        """How many pairs of pending operation and watched key there are. Exact, O(1)."""
        return self._lists.entries

    @property
    def delayed(self) -> int:
        """How many operations are pending. Exact, O(1)."""
        return self._lists.pending

    def stats(self) -> PurgatoryStats:
        """The figures of this moment. O(1)."""
        ended = self._lists.ended
        return PurgatoryStats(
            name=self.name,
            pending=self.delayed,
            watch_entries=self.watched,
            watched_keys=len(self._lists),
            completed=ended[Outcome.COMPLETED],
            expired=ended[Outcome.EXPIRED],
            cancelled=ended[Outcome.CANCELLED],
        )

    def start(self) -> None:
        """Start the timer, if it is the purgatory's own. Raises PurgatoryClosed."""
        self._refuse_if_closed()
        if self._owns_timer:
            self.timer.start()

    def close(
        self,
        wait: bool = True,
        cancel_pending: bool = True,
        timeout: float | timedelta | None = None,
    ) -> None:
        """Refuse new operations and end those that wait. May be called again, and from a callback.

        ``cancel_pending``: cancel them, so that their futures raise OperationCancelled; False: let
        them complete or expire for up to ``timeout`` seconds, then cancel the rest. ``wait``:
        return when all that has happened. The metrics leave their registry. In a forked child:
        nothing.
        """
        if self._keeper.forked:
            return
        self._lists.close()
        if self._registry is not None:
            metrics.unregister(self, self._registry)
        if cancel_pending:
            self._cancel_all()
        if self._owns_timer:
            self.timer.close(wait=wait, cancel_pending=cancel_pending, timeout=timeout)
        elif wait and not cancel_pending:
            seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
            self._lists.drained.wait(seconds)
            self._cancel_all()

    def _cancel_all(self) -> None:
        for operation in self._lists.all():
            operation.cancel()

    def _refuse_if_closed(self) -> None:
        self._keeper.refuse_in_child()
        self._lists.refuse_if_closed()

    def _refuse_if_ended(self) -> None:
        self._keeper.refuse_in_child()
        self._lists.refuse_if_ended()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken."""
        self._lists._check()
        self.timer._check()
        for operation in self._lists.all():
            assert operation._op_outcome is None, operation

    def __repr__(self) -> str:
        return f"<Purgatory {self.name!r}, {self.delayed} pending, {self.watched} watched>"


_purgatories: "weakref.WeakSet[Purgatory]" = weakref.WeakSet()


def living() -> list[Purgatory]:
    """All purgatories of this process that are referenced and not closed."""
    return [purgatory for purgatory in _purgatories if not purgatory._lists.closed]


def _refuse_in_child() -> None:
    for purgatory in list(_purgatories):
        purgatory._keeper.forked = True


os.register_at_fork(after_in_child=_refuse_in_child)
