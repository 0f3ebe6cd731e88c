"""WorkerLoop: the jobs held, the jobs running, and the reports to the server; no threads.

    working ──stop──> draining ──no handler runs, or too late──> flushing ──> finished

For the worker's own thread. `begin` and `end` are for the `HandlerRunner`, `stop` for any thread;
the client's I/O thread delivers jobs and answers.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol

from purgatory.service.client.backoff import backoff_s
from purgatory.service.client.calls import Keeping
from purgatory.service.client.futures import HandledReply
from purgatory.service.client.later_calls import JobCalls
from purgatory.service.client.worker_link import Asks, WorkerLink
from purgatory.service.encoding import pack_result
from purgatory.service.errors import TimeLimit, Unavailable, WorkerStuck, summary_of
from purgatory.service.job_messages import CancelLeases
from purgatory.service.platform import Platform
from purgatory.service.protocol import How, LeasedJob, LeaseEnd
from purgatory.service.worker.demand import Demand, WorkerSettings
from purgatory.service.worker.handlers import Handler
from purgatory.service.worker.held_jobs import LOOK_AHEAD_S, HeldJob, HeldJobs
from purgatory.service.worker.lease_returns import LeaseReturns, WorkerCounts

log: logging.Logger = logging.getLogger(__name__)

# Most seconds between two steps.
_LOOK_S: Final = 1.0
# Seconds until a begun handler is reported.
_TELL_S: Final = 0.01
# Most characters of an error.
_ERROR_LENGTH: Final = 500
# Seconds to wait for ending threads.
JOIN_S: Final = 2.0


class _Phase(Enum):
    WORKING = auto()
    DRAINING = auto()  # no more jobs; running handlers may finish
    FLUSHING = auto()  # the server has not answered to all ends
    FINISHED = auto()


class HandlerRunner(Protocol):
    """Runs handlers for the loop; see `HandlerThreads`."""

    def add(self, held: HeldJob) -> None:
        """Queue a job: call `begin` at its turn, and `end` after the handler."""

    def cancel(self, held: HeldJob) -> None:
        """See `HandlerThreads.cancel`."""

    def lose(self, held: HeldJob) -> None:
        """See `HandlerThreads.lose`."""

    def stop(self, seconds: float) -> None:
        """Begin no more jobs, and wait for threads."""


class WorkerLoop:
    """A `Loop` for the jobs of `handlers`, by kind.

    `wake` requests a step: the stepping thread sets `wake` before `start`.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        handlers: Mapping[str, Handler],
        calls: JobCalls,
        runner: HandlerRunner,
        counts: WorkerCounts,
        platform: Platform,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._calls = calls
        self._runner = runner
        self._platform = platform
        self._monotonic = platform.monotonic
        self.wake: Callable[[], object] = lambda: None
        self._held = HeldJobs(settings.lease_ms / 1000, self._lease_clock)
        self._demand = Demand(settings, handlers, self._ask, platform.monotonic)
        self._ends = LeaseReturns(
            settings.name, calls, self._held, counts, self._wake_if_stopping, self._on_again
        )
        self._extender = self._extend  # bound once, not for each job
        self._timeouts = {
            kind: timeout
            for kind, handler in handlers.items()
            if (timeout := handler.limits.timeout) is not None
        }
        self._kept_at = 0.0  # the last look for leases to keep
        self._keep_s = min(LOOK_AHEAD_S, settings.lease_ms / 6000)  # between two looks
        self._sleeps_long = False  # whether new jobs wake the loop
        self._stop_at: float | None = None  # set by `stop`
        self._phase = _Phase.WORKING
        self._phase_end = 0.0  # at the latest
        #: The error that ended the loop.
        self.failure: WorkerStuck | None = None

    @property
    def running(self) -> int:
        """How many handlers run now."""
        return self._held.running

    def start(self) -> None:
        """Ask for jobs. Raises Unavailable."""
        self._demand.ask()

    def stop(self, seconds: float) -> None:
        """See `Worker.stop`."""
        at = self._monotonic() + seconds
        self._stop_at = at if self._stop_at is None else min(at, self._stop_at)
        self.wake()

    def sleep_seconds(self) -> float:
        """See `Loop`."""
        seconds = min(_LOOK_S, self._settings.lease_ms / 3000)
        self._sleeps_long = True  # first: a job that comes now is seen below, or wakes the loop
        running = self._held.unfinished()
        if len(self._held) > sum(held.is_told for held in running):
            self._sleeps_long = False  # some are about to begin, or begun and untold
            seconds = min(seconds, _TELL_S)
        now = self._monotonic()
        for held in running:
            if held.ends_at is not None:
                seconds = min(seconds, max(0.0, held.ends_at - now))
        if self._phase is _Phase.WORKING:
            return seconds if self._stop_at is None else 0.0
        return min(seconds, max(0.0, self._phase_end - self._monotonic()))

    def step(self) -> None:
        """See `Loop`. Raises the server's refusal, and what ended the client."""
        self._ends.send_again()
        if self._phase is _Phase.WORKING:
            self._work()
        if self._phase is _Phase.DRAINING:
            self._drain()
        if self._phase is _Phase.FLUSHING:
            self._flush()

    def finished(self) -> bool:
        """See `Loop`."""
        return self._phase is _Phase.FINISHED

    def shut_down(self) -> None:
        """Do nothing: the caller closes the client."""

    def _work(self) -> None:
        if self._stop_at is not None:
            self._phase = _Phase.DRAINING
            with contextlib.suppress(Unavailable):
                self._demand.end()
            self._ends.give_back(self._held.take_waiting(0))
            return
        self._keep()
        self._tell_begun()
        self._end_late()
        unfinished = self._held.unfinished()
        self._look_at_demand(unfinished)
        self._give_back_late(unfinished)
        self._demand.check_answer()
        if self._calls.failure is not None:  # after the answer: no job will come
            raise self._calls.failure

    def _tell_begun(self) -> None:
        leases = self._held.take_untold()
        if leases:
            self._calls.begin(leases)

    def _end_late(self) -> None:
        now = self._monotonic()
        for held in self._held.unfinished():
            if held.ends_at is not None and held.ends_at <= now:
                self._give_up(held)

    def _drain(self) -> None:
        assert self._stop_at is not None
        self._phase_end = self._stop_at  # a second `stop` may have been for less time
        if self._held.running and self._monotonic() < self._phase_end:
            self._keep()
            self._tell_begun()
            self._end_late()
            return
        self._ends.give_back(self._held.take_waiting(0) + self._held.unfinished())
        self._runner.stop(JOIN_S)
        self._phase = _Phase.FLUSHING
        self._phase_end = self._monotonic() + self._settings.flush_s

    def _flush(self) -> None:
        left = self._ends.left
        if left and self._monotonic() < self._phase_end:
            return
        self._phase = _Phase.FINISHED
        if left:  # those leases end by themselves
            log.warning(
                "worker %r: the server did not confirm the ends of %d leases",
                self._settings.name,
                left,
            )

    def _wake_if_stopping(self) -> None:
        if self._stop_at is not None:
            self.wake()

    def _ask(self, asks: Asks) -> Any:
        link = WorkerLink(asks, self._on_jobs, self._on_connected, self._on_cancelled)
        return self._calls.ask(link)

    def _on_connected(self) -> None:
        """Drop jobs not begun: their leases ended with the connection."""
        self._held.take_waiting(0)

    def _on_jobs(self, jobs: list[LeasedJob]) -> None:
        for leased in jobs:
            held = self._held.add(leased)
            if held is not None:
                self._runner.add(held)
        self._note_new()

    def _on_again(self, held: HeldJob) -> None:
        self._runner.add(held)
        self._note_new()

    def _note_new(self) -> None:
        if self._sleeps_long:
            self._sleeps_long = False
            self.wake()
        if self._stop_at is not None:  # jobs that were on their way at the stop
            self._ends.give_back(self._held.take_waiting(0))

    def _on_cancelled(self, message: CancelLeases) -> None:
        for lease in message.leases:
            held = self._held.find(lease)
            if held is None:
                continue
            if self._held.take(held):
                self._ends.give_back([held])
            elif not message.recall:
                self._cancel(held)

    def _cancel(self, held: HeldJob) -> None:
        if not held.is_cancelled:
            held.cancel()
            self._runner.cancel(held)

    def _look_at_demand(self, unfinished: list[HeldJob]) -> None:
        if self._demand.look(unfinished, self._lease_clock()):
            keep = max(0, self._demand.room - self._held.running)
            self._ends.give_back(self._held.take_waiting(keep))

    def _give_back_late(self, unfinished: list[HeldJob]) -> None:
        """Give back jobs that have waited for LOOK_AHEAD_S, if no handler is free."""
        busy = self._demand.busy_kinds(unfinished)
        if not busy:
            self._demand.stall(busy, [])
            return
        late = self._held.take_late(self._lease_clock() - LOOK_AHEAD_S, busy.__contains__)
        self._demand.stall(busy, late)
        self._ends.give_back(late)

    def _lease_clock(self) -> float:
        """Return seconds, suspension included."""
        return self._platform.boot_ns() / 1e9

    def _keep(self) -> None:
        now = self._lease_clock()
        if 0 <= now - self._kept_at < self._keep_s:
            return
        self._kept_at = now
        self._keep_leases(self._held.to_keep(now - self._settings.lease_ms / 3000))

    def _keep_leases(self, jobs: list[HeldJob]) -> None:
        now = self._lease_clock()
        for held in jobs:
            held.asked_at = now
            on_kept = partial(self._on_kept, held, held.token, now)
            with contextlib.suppress(Unavailable):  # `_work` raises what ended the client
                self._calls.keep(held.lease, HandledReply(on_kept))

    def _on_kept(self, held: HeldJob, token: int, asked_at: float, reply: Any) -> None:
        if reply.exception() is not None or held.token != token or held.is_ending:
            return
        if reply.result():
            self._held.kept(held, token, asked_at)
            if reply.result() == Keeping.CANCELLED:
                self._cancel(held)
            return
        log.warning("worker %r has lost its lease of job %r",
                    self._settings.name, held.leased.op_id)  # fmt: skip
        held.asked_at = math.inf  # ask no more, unless the job is leased again
        if held.started_at is None:
            self._held.remove(held)

    def begin(self, held: HeldJob) -> bool:
        """Note that a handler is about to run; False: the lease has ended, or the worker stops."""
        if self._stop_at is not None:  # the loop gives the job back
            return False
        if not self._held.begin(held):
            if held.has_lapsed:  # for a silent worker the server has no other job
                self._ends.give_back([held])
            return False
        if self._timeouts:
            timeout = self._timeouts.get(held.leased.kind)
            if timeout is not None:
                held.ends_at = self._monotonic() + timeout
        held.extender = self._extender
        return True

    def _extend(self, held: HeldJob, seconds: float) -> bool:
        if held.is_ending:
            return False
        if held.ends_at is not None:
            held.ends_at = self._monotonic() + seconds
        self._keep_leases([held])
        self.wake()
        return True

    def end(self, held: HeldJob, error: BaseException | None) -> None:
        """Tell the server that a handler has returned or raised `error`, unless given up."""
        if not self._held.end(held):
            return
        if held.started_at is not None:
            self._demand.note(held.leased.kind, self._lease_clock() - held.started_at)
        self._demand.go_on(self._held.unfinished)
        self._report(held, error)
        if self._demand.is_due:
            self._look_at_demand([])
        self._wake_if_stopping()

    def _report(self, held: HeldJob, error: BaseException | None) -> None:
        end = LeaseEnd(held.leased.number, held.token, How.DONE)
        try:
            error = self._set_result(end, held) if error is None else error
            if error is not None:
                self._note_failure(held, end, error)
        finally:  # also if a log handler raises
            self._ends.send(held, end)

    def _set_result(self, end: LeaseEnd, held: HeldJob) -> Exception | None:
        if held.result is None:
            return None
        try:
            end.result = pack_result(held.result, self._calls.max_result_bytes)
        except Exception as error:  # noqa: BLE001  # of the value's code, too
            return error
        return None

    def _give_up(self, held: HeldJob) -> None:
        """Fail an attempt whose time is over."""
        if not self._held.end(held, lost=True):
            return
        handler = self._handlers[held.leased.kind]
        limit = self._timeouts[held.leased.kind]
        text = f"the handler runs longer than its time limit of {limit:.15g} s"
        self._report(held, TimeLimit(text))
        self._check_lost(held.leased.kind, handler)  # first: its next handler would begin a job
        self._runner.lose(held)  # last: perhaps no thread is left
        self._wake_if_stopping()

    def _check_lost(self, kind: str, handler: Handler) -> None:
        same_sort = [self._handlers[one.leased.kind].is_async == handler.is_async
                     for one in self._held.lost].count(True)  # fmt: skip
        same_kind = [one.leased.kind for one in self._held.lost].count(kind)
        most = self._settings.concurrency
        if same_sort <= most and same_kind <= (handler.limits.concurrency or most):
            return
        if self.failure is None:
            self.failure = WorkerStuck(
                f"worker {self._settings.name!r}: {same_kind} handlers of kind {kind!r} run longer "
                f"than their time limit and cannot be stopped; the worker ends"
            )
            self.stop(0)

    def _note_failure(self, held: HeldJob, end: LeaseEnd, error: BaseException) -> None:
        leased = held.leased
        retry = self._handlers[leased.kind].retry
        end.how = How.FAILED
        delay, longest, uniform = retry.delay, retry.max_delay, self._platform.uniform
        end.delay_ms = int(1000 * backoff_s(leased.attempt, delay, longest, uniform))
        end.error = summary_of(error)[:_ERROR_LENGTH]
        if held.is_cancelled and isinstance(error, asyncio.CancelledError):
            log.info("worker %r: job %r was cancelled", self._settings.name, leased.op_id)
            return
        log.warning("worker %r: attempt %d of %d at job %r has failed", self._settings.name,
                    leased.attempt, retry.max_attempts, leased.op_id, exc_info=error)  # fmt: skip
