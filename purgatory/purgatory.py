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
from purgatory.bus import Bus
from purgatory.commands import Cancel, Complete
from purgatory.errors import PurgatoryClosed, PurgatoryForked
from purgatory.future import DeferredFuture, DeferredOperation
from purgatory.journal import Journal
from purgatory.keyed import distinct_keys
from purgatory.operation import JOURNALED, DelayedOperation, Outcome
from purgatory.stats import PurgatoryStats
from purgatory.watchers import WatchLists
from purgatory.workers import Workers
from timingwheel import Timer, TimerClosed, TimerError, to_ms

log = logging.getLogger(__name__)

OnError = Callable[[BaseException, DelayedOperation], object]

_forks = 0  # that lie between the first process and this one


class _Keeper:
    """What a purgatory is to its operations; see `purgatory.operation.Keeper`."""

    def __init__(
        self, name: str, own_timer: Timer | None, on_error: OnError | None, journal: Journal | None
    ) -> None:
        self.name = name
        self._own_timer = own_timer
        self.lists = WatchLists(name)
        self._born = _forks
        self._on_error = on_error
        self._journal = journal

    @property
    def forked(self) -> bool:
        return self._born != _forks

    def refuse_in_child(self) -> None:
        if self.forked:
            raise PurgatoryForked(
                f"purgatory {self.name!r} was made before fork; make one in this process"
            )

    def release(self, operation: DelayedOperation, outcome: Outcome) -> None:
        error = self.lists.release(operation, outcome)
        if error is not None:
            self.report(error, operation)
        if self.lists.closed and self._own_timer is not None and self.lists.drained.is_set():
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
    the metrics in. ``executor_workers``: how many threads run what expires, with a timer of its
    own.

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
        executor_workers: int | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name is {name!r}; expected a str")
        if timer is not None and not isinstance(timer, Timer):
            raise TypeError(f"timer is {timer!r}; expected a Timer or None")
        if on_error is not None and not callable(on_error):
            raise TypeError(f"on_error is {on_error!r}; expected a callable or None")
        if executor_workers is not None and timer is not None:
            raise ValueError("executor_workers is for a timer of its own; this one has been given")
        if registry is not None and not isinstance(registry, CollectorRegistry):
            raise TypeError(f"registry is {registry!r}; expected a CollectorRegistry or None")
        self.timer = _own_timer(name, executor_workers) if timer is None else timer
        self.name = name
        self._owns_timer = timer is None
        self._keeper = _Keeper(name, self.timer if timer is None else None, on_error, journal)
        self._lists = self._keeper.lists
        self._bus = Bus(name, _Posted(self._lists))
        self._registry = registry
        if registry is not None:
            metrics.register(self, registry)
        _purgatories[id(self)] = self

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
        return operation._op_enter(self._keeper, watch_keys) and self._submit(operation, watch_keys)

    def _submit(
        self, operation: DelayedOperation, keys: tuple[Hashable, ...], ask: bool = True
    ) -> bool:
        try:
            if ask and operation._op_attempt():
                return True
            self._lists.watch(operation, keys)
            if operation._op_attempt():
                return True
            if operation._op_outcome is None:
                self.timer.add(operation)
        except BaseException as error:  # which raises it again
            if self._undo(operation, error):
                raise
        # Since the questions it may have ended, and found less to leave than there is now.
        if operation._op_outcome is not None:
            self._lists.remove(operation)
            operation._op_leave_timer()
        return False

    def _undo(self, operation: DelayedOperation, error: BaseException) -> bool:
        """Take back a submission that failed. False if the operation has ended all the same."""
        self._lists.remove(operation)
        if not isinstance(error, TimerError):  # which says that it was not added
            operation._op_leave_timer()
        waits = operation._op_withdraw()
        if waits and isinstance(error, TimerClosed) and self._lists.closed:
            raise PurgatoryClosed(f"purgatory {self.name!r} is closed") from error
        return waits or not isinstance(error, Exception)

    def check_and_complete(self, key: Hashable) -> int:
        """Ask `try_complete` of all operations that watch a key; how many this call completed.

        Raises PurgatoryClosed.
        """
        self._refuse_if_ended()
        return sum(operation._op_attempt() for operation in self._lists.watching(key))

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch a key, and return them. Raises PurgatoryClosed."""
        self._refuse_if_ended()
        return self._lists.cancel(key)

    def defer(
        self, *keys: Hashable, timeout: float | timedelta = 30.0, need: int = 1
    ) -> DeferredFuture:
        """Return a future that resolves once ``need`` distinct keys have been completed.

        ``timeout`` in seconds, or a timedelta. The result is the value of the key, or with need > 1
        a dict key -> value. Raises TypeError and ValueError for bad arguments, TimerFull,
        PurgatoryClosed.
        """
        watch_keys = distinct_keys(keys)
        self._refuse_if_closed()
        operation = DeferredOperation(timeout, need, watch_keys)
        operation._op_enter(self._keeper, watch_keys)
        self._submit(operation, watch_keys, ask=False)
        return operation.future.attach(operation)

    def complete(self, key: Hashable, value: object = None) -> int:
        """Complete a key: futures that wait for it get ``value``, other operations are checked.

        How many operations this call completed. Raises PurgatoryClosed.
        """
        self._refuse_if_ended()
        return self._lists.complete(key, value)

    def complete_later(self, key: Hashable, value: object = None) -> None:
        """Post a completion to the purgatory's loop, and return at once.

        From any thread, a signal handler or a finalizer. `start` starts the loop; a batch of posts
        is done together, in order for each thread. Raises TypeError for an unhashable key,
        PurgatoryClosed.
        """
        hash(key)
        self._refuse_if_closed()
        self._bus.post(Complete(key, value))

    def cancel_later(self, key: Hashable) -> None:
        """Post a `cancel_for_key`, as `complete_later` does a completion."""
        hash(key)
        self._refuse_if_closed()
        self._bus.post(Cancel(key))

    def step(self, timeout: float | timedelta = 0.0) -> bool:
        """Do what was posted and, with a timer of its own, what is due: for use without threads.

        Waits up to ``timeout`` seconds for something to do. True if a bucket came due. Raises
        RuntimeError while a loop runs, which does all that.
        """
        if self._loop_runs():
            raise RuntimeError(f"purgatory {self.name!r} is started; its loop does the steps")
        delay = self.timer.patience() if self._owns_timer else None
        seconds = to_ms(timeout) / 1000
        self._bus.wait(seconds if delay is None else min(seconds, delay))
        return self._owns_timer and self.timer.advance_clock()

    def _loop_runs(self) -> bool:
        return self.timer.running if self._owns_timer else self._bus.loop_runs()

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
            mailbox_commands=self._bus.mailbox.sent,
            mailbox_depth=self._bus.mailbox.depth,
        )

    def start(self) -> None:
        """Start the loop: it does what is posted and, if the timer is its own, advances the clock.

        Nothing happens if it runs. Raises PurgatoryClosed.
        """
        self._refuse_if_closed()
        if self._owns_timer:
            self.timer.start(self._bus)
        else:
            self._bus.start_loop()

    def close(
        self,
        wait: bool = True,
        cancel_pending: bool = True,
        timeout: float | timedelta | None = None,
    ) -> None:
        """Refuse new operations and end those that wait. May be called again, and from a callback.

        ``cancel_pending``: cancel them, so that their futures raise OperationCancelled; False: let
        them complete or expire for up to ``timeout`` seconds, then cancel the rest. ``wait``:
        return when all that has happened (with a shared timer, somebody else must advance its clock
        meanwhile). The metrics leave their registry. In a forked child: nothing. Raises TypeError
        and ValueError for a bad timeout.
        """
        if self._keeper.forked:
            return
        seconds = None if timeout is None else to_ms(timeout) / 1000
        self._lists.close()
        if self._registry is not None:
            metrics.unregister(self, self._registry)
        self._bus.settle(self._loop_runs, seconds)
        self._bus.stop_loop(seconds if wait else 0)
        try:
            self._end_pending(wait, cancel_pending, timeout)
        finally:
            if not self._loop_runs():
                self._bus.mailbox.close()

    def _end_pending(
        self, wait: bool, cancel_pending: bool, timeout: float | timedelta | None
    ) -> None:
        if cancel_pending:
            self._cancel_all()
        if self._owns_timer:
            self.timer.close(wait=wait, cancel_pending=cancel_pending, timeout=timeout)
            if wait and len(self.timer):  # it was never started: nothing will expire
                self._cancel_all()
        elif cancel_pending:
            return
        elif wait:
            self._lists.drained.wait(None if timeout is None else to_ms(timeout) / 1000)
            self._cancel_all()
        elif timeout is not None:
            self._cancel_all_after(timeout)

    def _cancel_all(self) -> None:
        for operation in self._lists.all():
            operation._op_end(Outcome.CANCELLED)

    def _cancel_all_after(self, timeout: float | timedelta) -> None:
        try:
            self.timer.schedule(timeout, self._cancel_all)
        except TimerError:
            self._cancel_all()

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


class _Posted:
    """What is done with posted commands; see `purgatory.bus.Handler`."""

    def __init__(self, lists: WatchLists) -> None:
        self._lists = lists

    def complete_posted(self, key: Hashable, value: object) -> None:
        self._lists.complete(key, value)

    def cancel_posted(self, key: Hashable) -> None:
        self._lists.cancel(key)


def _own_timer(name: str, workers: int | None) -> Timer:
    workers = 1 if workers is None else workers
    if isinstance(workers, bool) or not isinstance(workers, int):
        raise TypeError(f"executor_workers is {workers!r}; expected an int")
    if workers < 1:
        raise ValueError(f"executor_workers is {workers!r}; expected at least 1")
    return Timer(name, executor=Workers(name, workers))


# By id: a subclass may compare as it likes.
_purgatories: "weakref.WeakValueDictionary[int, Purgatory]" = weakref.WeakValueDictionary()


def living() -> list[Purgatory]:
    """All purgatories of this process that are referenced and not closed."""
    # At once: others come and go in the meantime.
    found = [reference() for reference in _purgatories.valuerefs()]
    return [
        purgatory
        for purgatory in found
        if purgatory is not None and not purgatory._lists.closed and not purgatory._keeper.forked
    ]


def _refuse_in_child() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1
    metrics.forget_all()


os.register_at_fork(after_in_child=_refuse_in_child)
