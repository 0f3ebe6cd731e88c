"""Purgatory: the class for users; its constructor, `start`, `step` and `close`. Any thread.

Interpreted, unlike `PurgatoryCore`: its loops release the GIL, and the registry can refer to it
weakly.
"""

import atexit
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Self

from _purgatory_cpython import at_exit
from _purgatory_cpython.real_time import real_seconds
from purgatory.bus.loop import Bus
from purgatory.bus.worker_pool import WorkerPool
from purgatory.core.completion import do_posted
from purgatory.core.held_events import HeldEvents
from purgatory.core.operations.operation_state import CANCELLED
from purgatory.core.operations.outcome_race import finish
from purgatory.core.outcome_recorder import Journal, OnError, OutcomeRecorder
from purgatory.core.parts import PurgatoryParts
from purgatory.core.purgatory_core import PurgatoryCore
from purgatory.core.section_lists import new_watch_lists
from purgatory.registry import add_purgatory, live_purgatories
from timingwheel import Timer, TimerClosed, TimerError
from timingwheel.lowlevel import (
    JOIN_GRACE_S,
    MAX_WORKERS,
    check_callback,
    check_count,
    check_flag,
    check_name,
    runs_on,
    to_ms,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# An event takes about 400 bytes beside its key and value: forty megabytes.
DEFAULT_MAX_HELD = 100_000


class Purgatory(PurgatoryCore):
    """Holds delayed operations until a watch key completes them or their timeout passes.

    `timer`: a timer shared with others, neither started nor closed here; None: an own timer,
    `p.timer`. `on_error(exc, operation)`: told of exceptions in methods of operations; default:
    logged, as are exceptions in done callbacks of futures. `journal`: told of each outcome.
    `registry`: a Prometheus registry for the metrics. `executor_workers`: how many threads of an
    own timer run what expires; default: one, and another, up to 32, while a callback takes longer
    than two to four milliseconds. `max_held`: how many events may be held at once, see `complete`.

    An own timer must be started, or nothing expires: `with Purgatory() as p` starts and closes it.
    All methods may be called from any thread, and from callbacks.
    """

    def __init__(
        self,
        name: str = "purgatory",
        *,
        timer: Timer | None = None,
        on_error: OnError | None = None,
        journal: Journal | None = None,
        registry: "CollectorRegistry | None" = None,
        executor_workers: int | None = None,
        max_held: int = DEFAULT_MAX_HELD,
    ) -> None:
        _check_options(name, timer, on_error, journal, registry, executor_workers)
        self._owns_timer = timer is None
        pool = None
        if timer is None:
            pool = _new_worker_pool(name, executor_workers)
            timer = Timer(name, executor=pool)
        lists = new_watch_lists(name)
        held = HeldEvents(name, timer, check_count("max_held", max_held, 0))
        owner = OutcomeRecorder(name, lists, timer, self._owns_timer, on_error, journal)
        parts = PurgatoryParts(owner, lists, held, timer)
        super().__init__(name, timer, parts, Bus(name, partial(do_posted, parts), pool))
        if timer.running:
            owner.enable_gc_untracking()
        self._registry = registry
        if registry is not None:
            from purgatory import metrics  # noqa: PLC0415  # see `purgatory.__getattr__`

            metrics.register(self, registry)
            self._unregister = metrics.unregister
        add_purgatory(self)

    def start(self) -> None:
        """Start the loop: runs posted calls and, with an own timer, advances the clock.

        Does nothing if the loop runs. Raises PurgatoryClosed, and RuntimeError if the system has no
        thread left.
        """
        self._parts.check_open()
        try:
            if self._owns_timer:
                self.timer.start(self._bus)
            # Also if the program has started an own timer.
            if not self._loop_runs():
                self._bus.start_loop()
        except TimerClosed:
            self._parts.check_open()  # the purgatory's own error
            raise
        self._parts.check_open()  # another thread may have closed it meanwhile
        if self.timer.running:
            self._parts.owner.enable_gc_untracking()

    def step(self, timeout: float | timedelta = 0.0) -> bool:
        """Run posted calls and, with an own timer, due tasks: for use without threads.

        Waits up to `timeout` seconds for something to do. True if a bucket came due. Raises
        RuntimeError while a loop runs, PurgatoryForked in a forked child.
        """
        self._parts.owner.check_not_forked()
        if self._loop_runs():
            raise RuntimeError(f"purgatory {self.name!r} is started; its loop does the steps")
        delay = self.timer.max_sleep() if self._owns_timer else None
        seconds = to_ms(timeout, "timeout") / 1000
        self._bus.do_posted(seconds if delay is None else min(seconds, delay))
        return self._owns_timer and self.timer.advance_clock()

    def close(
        self,
        wait: bool = True,
        cancel_pending: bool = True,
        timeout: float | timedelta | None = None,
    ) -> None:
        """Refuse new operations and end pending ones. Idempotent; callbacks may call it.

        `cancel_pending`: cancel pending operations, so that their futures raise OperationCancelled;
        False: let them complete or expire for up to `timeout` seconds, then cancel the rest.
        `wait`: return after all ended; False: wait for no callback, as a signal handler should.
        With a shared timer, another thread must advance its clock meanwhile, and only the timer's
        `close` waits for callbacks of expired operations that run. A `try_complete` should pass a
        timeout: its own operation cannot end before `try_complete` returns. A signal handler or
        finalizer never waits if its thread has a lock of ours: see `Timer.holds_lock`.
        The metrics leave their registry. In a forked child: nothing. Raises TypeError, ValueError.
        """
        check_flag("wait", wait)
        check_flag("cancel_pending", cancel_pending)
        if self._parts.owner.forked:
            return
        seconds = None if timeout is None else to_ms(timeout, "timeout") / 1000
        at_exit.free_all()
        wait = wait and not self._holds_lock()
        self._parts.lists.close()
        self._parts.held.close()  # no submission remains
        if self._registry is not None:
            self._unregister(self, self._registry)
        end_s = None if seconds is None else real_seconds() + seconds
        self._bus.flush(self._loop_runs, seconds, wait=wait)
        self._bus.stop_loop(_join_seconds(end_s) if wait else 0)
        try:
            self._finish_pending(wait, cancel_pending, timeout, end_s)
        finally:
            if not self._loop_runs():
                self._bus.mailbox.close()

    def _finish_pending(
        self,
        wait: bool,
        cancel_pending: bool,
        timeout: float | timedelta | None,
        end_s: float | None,
    ) -> None:
        if cancel_pending:
            self._cancel_all()
        if self._owns_timer:
            left = _seconds_until(end_s)
            self.timer.close(wait=wait, cancel_pending=cancel_pending, timeout=left)
            if wait and len(self.timer):  # the loop never started
                self._cancel_all()
        elif cancel_pending:
            return
        elif wait:
            self._parts.lists.drained.wait(_seconds_until(end_s))
            self._cancel_all()
        elif timeout is not None:  # by the timer's clock, which may be moved by hand
            self._cancel_all_after(timeout)

    def _cancel_all(self) -> None:
        for operation in self._parts.lists.all():
            finish(operation, CANCELLED)

    def _cancel_all_after(self, timeout: float | timedelta) -> None:
        try:
            self.timer.schedule(timeout, self._cancel_all)
        except TimerError:
            self._cancel_all()

    def _holds_lock(self) -> bool:
        # Without a loop, this thread reads the posted calls itself.
        return (self._loop_runs() and self._bus.holds_lock()) or self._parts.holds_lock()

    def _loop_runs(self) -> bool:
        return runs_on(self.timer, self._bus) or self._bus.loop_runs()

    def _is_live(self) -> bool:
        return not (self._parts.lists.closed or self._parts.owner.forked)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _join_seconds(end_s: float | None) -> float | None:
    left = _seconds_until(end_s)
    return None if left is None else left + JOIN_GRACE_S


def _seconds_until(end_s: float | None) -> float | None:
    """Return the seconds left until `end_s`; None: no limit."""
    return None if end_s is None else max(0.0, end_s - real_seconds())


def _check_options(
    name: object,
    timer: object,
    on_error: object,
    journal: object,
    registry: object,
    executor_workers: object,
) -> None:
    check_name(name)
    if timer is not None and not isinstance(timer, Timer):
        raise TypeError(f"timer is {timer!r}; expected a Timer or None")
    if on_error is not None:
        check_callback("on_error", on_error)
    if isinstance(journal, type):
        raise TypeError(f"journal is {journal!r}; expected an object of the class")
    if journal is not None:
        check_callback("journal.ended", getattr(journal, "ended", None))
    if executor_workers is not None and timer is not None:
        raise ValueError("executor_workers is for a timer of its own; this one has been given")
    if registry is not None:
        from purgatory import metrics  # noqa: PLC0415  # as above

        metrics.check_registry(registry)


def _new_worker_pool(name: str, workers: int | None) -> WorkerPool:
    if workers is None:
        return WorkerPool(name, 1, most=MAX_WORKERS)
    return WorkerPool(name, check_count("executor_workers", workers, 1))


def _warn_of_unstarted() -> None:
    for purgatory in live_purgatories():
        if isinstance(purgatory, Purgatory) and purgatory.delayed:
            purgatory._parts.owner.warn_if_not_driven()


atexit.register(_warn_of_unstarted)
