"""WorkerLoop: what a worker holds, what of it runs, and what it tells the server; no threads.

    working ──stop──> draining ──no handler runs, or too late──> flushing ──> finished

The thread that runs the worker steps it. `begin` and `end` are for what runs the handlers, `stop`
for any thread; the client's I/O thread brings jobs and answers.
"""

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from purgatory.service.client.later_calls import JobCalls
from purgatory.service.client.session import WorkerLink
from purgatory.service.errors import (
    RequestAbandoned,
    ServiceError,
    StoreFailed,
    Unavailable,
    described,
)
from purgatory.service.platform import Platform
from purgatory.service.protocol import How, LeasedJob, LeaseEnd
from purgatory.service.worker.handlers import Handler
from purgatory.service.worker.held_jobs import LOOK_AHEAD_S, HeldJob, HeldJobs, Pace

if TYPE_CHECKING:
    from purgatory.service.client.futures import ReplyFuture

log: logging.Logger = logging.getLogger(__name__)

# Seconds between two looks at the leases, at most.
_LOOK_S: Final = 1.0
#: Seconds without an answer to the request for jobs after which the log says so.
PATIENCE_S: Final = 5.0
# Characters of an error that are kept of a job that was given up.
_ERROR_LENGTH: Final = 500
# Seconds that threads are waited for which should have ended.
JOIN_S: Final = 2.0


class _Phase(Enum):
    WORKING = auto()
    DRAINING = auto()  # no more jobs; handlers that run may finish
    FLUSHING = auto()  # the last ends are on their way to the server
    FINISHED = auto()


@dataclass(slots=True)
class WorkerCounts:
    """What has become of jobs at a worker: done; failed; and lost, as the lease had ended."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, done: int = 0, failed: int = 0, lost: int = 0) -> None:
        """Count some more."""
        with self._lock:
            self.done += done
            self.failed += failed
            self.lost += lost


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Of one run: `flush_s` is how long the last ends may take to reach the server."""

    name: str
    address: str
    concurrency: int
    lease_ms: int
    flush_s: float


class HandlerRunner(Protocol):
    """What runs handlers, as the loop sees it; `HandlerThreads` in production."""

    def add(self, held: HeldJob) -> None:
        """Have a job run: `begin` it when its turn comes, and `end` it after its handler."""

    def stop(self, seconds: float) -> None:
        """Begin no more jobs, and wait for threads for so long."""


class WorkerLoop:
    """A `Loop` for the jobs of `handlers`, by kind.

    `calls` says to the server what there is to say, and `wake` has a step run soon: the thread that
    steps the loop sets it before `start`.
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
        self._counts = counts
        self._platform = platform
        self._monotonic = platform.monotonic
        self.wake: Callable[[], object] = _nothing
        self._is_mixed = len({one.is_async for one in handlers.values()}) > 1
        concurrency = settings.concurrency * (2 if self._is_mixed else 1)
        self._held = HeldJobs(settings.lease_ms / 1000, self._lease_clock)
        self._pace = Pace(concurrency, platform.monotonic)
        self._asked: tuple[ReplyFuture[None], float] | None = None  # for jobs; and when
        # Whether coroutine functions, or plain ones, are all busy: no more jobs of them are wanted.
        self._stalled: set[bool] = set()
        self._sleeps_long = False  # whether jobs that come are to wake it
        self._is_silent = False  # whether the server did not answer that for long
        self._again: list[tuple[HeldJob, LeaseEnd]] = []  # ends that the server could not write
        self._unanswered: set[ReplyFuture[bool]] = set()  # to ends
        self._stop_seconds: float | None = None  # set when it is to stop
        self._phase = _Phase.WORKING
        self._phase_end = 0.0  # when the phase is over at the latest

    @property
    def running(self) -> int:
        """How many handlers run now."""
        return self._held.running

    def start(self) -> None:
        """Ask for jobs. Raises Unavailable."""
        self._ask(self._pace.room)

    def stop(self, seconds: float) -> None:
        """Take no more jobs, let handlers run for so long at most, then give back the rest."""
        self._stop_seconds = seconds
        self.wake()

    # The loop

    def sleep_seconds(self) -> float:
        """See `Loop`."""
        seconds = min(_LOOK_S, self._settings.lease_ms / 3000)
        self._sleeps_long = True  # before the look: a job that comes now is seen, or wakes it
        if len(self._held) > self._held.running:
            self._sleeps_long = False
            seconds = min(seconds, LOOK_AHEAD_S)
        if self._phase is _Phase.WORKING:
            return seconds if self._stop_seconds is None else 0.0
        return min(seconds, max(0.0, self._phase_end - self._monotonic()))

    def step(self) -> None:
        """See `Loop`. Raises what the server refused the request for jobs with."""
        self._send_again()
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
        """Do nothing: the client is another's."""

    def _begin_phase(self, phase: _Phase, seconds: float) -> None:
        self._phase = phase
        self._phase_end = self._monotonic() + seconds

    def _work(self) -> None:
        """Keep leases, and have more or fewer jobs at a time."""
        if self._stop_seconds is not None:
            self._begin_phase(_Phase.DRAINING, self._stop_seconds)
            with contextlib.suppress(Unavailable):
                self._ask(0)
            self._give_back(self._held.take_waiting(0))
            return
        self._keep()
        unfinished = self._held.unfinished()
        started = [held.started_at for held in unfinished if held.started_at]
        self._set_pace(self._lease_clock() - min(started) if started else 0.0)
        self._give_back_late(unfinished)
        self._check_answer()

    def _drain(self) -> None:
        """Let handlers return that run, and give back what they do not finish."""
        if self._held.running and self._monotonic() < self._phase_end:
            self._keep()
            return
        self._give_back(self._held.take_waiting(0) + self._held.unfinished())
        self._runner.stop(JOIN_S)
        self._begin_phase(_Phase.FLUSHING, self._settings.flush_s)

    def _flush(self) -> None:
        """Wait until the server has answered to all ends."""
        left = len(self._unanswered) + len(self._again)
        if left and self._monotonic() < self._phase_end:
            return
        self._phase = _Phase.FINISHED
        if left:  # those leases end by themselves
            log.warning("worker %r: no answer to the ends of %d leases", self._settings.name, left)

    def _wake_if_stopping(self) -> None:
        """Have the loop look whether its phase is over; while it works, it need not."""
        if self._stop_seconds is not None:
            self.wake()

    # Leases

    def _ask(self, room: int) -> None:
        kinds = {
            kind: handler.retry.max_attempts
            for kind, handler in self._handlers.items()
            if handler.is_async not in self._stalled
        }
        asks = kinds, room, self._settings.lease_ms, False
        link = WorkerLink(asks, self._on_jobs, self._on_connected)
        self._asked = (self._calls.ask(link), self._monotonic())

    def _check_answer(self) -> None:
        """Raise what the server refused the request for jobs with; log if it does not answer."""
        if self._asked is None:
            return
        reply, since = self._asked
        name, address = self._settings.name, self._settings.address
        if reply.done():
            if isinstance(reply.exception(), RequestAbandoned):
                self._ask(self._pace.room)
                return
            reply.result()
            if self._is_silent:
                log.warning("worker %r: the server at %s answers", name, address)
            self._is_silent = False
        elif not self._is_silent and self._monotonic() - since >= PATIENCE_S:
            self._is_silent = True
            log.warning("worker %r: no answer from a server at %s; waiting for one", name, address)

    def _on_connected(self) -> None:
        """Drop what was not begun: those leases ended with the connection before."""
        self._held.take_waiting(0)

    def _on_jobs(self, jobs: list[LeasedJob]) -> None:
        for leased in jobs:
            held = self._held.add(leased)
            if held is not None:
                self._runner.add(held)
        if self._sleeps_long:
            self._sleeps_long = False
            self.wake()
        if self._stop_seconds is not None:  # they were on their way when it was told to
            self._give_back(self._held.take_waiting(0))

    def _set_pace(self, oldest: float = 0.0) -> None:
        before = self._pace.room
        if self._pace.look(oldest) and self._stop_seconds is None:
            self._ask(self._pace.room)
            if self._pace.room < before:
                keep = max(0, self._pace.room - self._held.running)
                self._give_back(self._held.take_waiting(keep))

    def _give_back_late(self, unfinished: list[HeldJob]) -> None:
        """Give back what has waited for as long as jobs may be ahead, if no handler is free."""
        running = Counter(self._handlers[held.leased.kind].is_async for held in unfinished)
        busy = {sort for sort, count in running.items() if count >= self._settings.concurrency}
        late = self._held.take_late(
            self._lease_clock() - LOOK_AHEAD_S, lambda kind: self._handlers[kind].is_async in busy
        )
        self._set_stalled(busy & (self._stalled | {self._handlers[one.leased.kind].is_async
                                                   for one in late}))  # fmt: skip
        self._give_back(late)

    def _set_stalled(self, stalled: set[bool]) -> None:
        """Ask for jobs of the other sort alone, where a worker has both; else `room` is enough."""
        if self._is_mixed and stalled != self._stalled:
            self._stalled = stalled
            self._ask(self._pace.room)

    def _lease_clock(self) -> float:
        """Return seconds; a lease ends at the server also while this machine is suspended."""
        return self._platform.boot_ns() / 1e9

    def _keep(self) -> None:
        now = self._lease_clock()
        for held in self._held.to_keep(now - self._settings.lease_ms / 3000):
            reply = self._calls.keep(held.lease)
            reply.add_done_callback(partial(self._on_kept, held, held.token, now))

    def _on_kept(self, held: HeldJob, token: int, asked_at: float, reply: Any) -> None:
        if reply.exception() is not None or held.token != token or held.is_ending:
            return
        if reply.result():
            self._held.kept(held, token, asked_at)
            return
        log.warning("worker %r has lost its lease of job %r",
                    self._settings.name, held.leased.op_id)  # fmt: skip
        if held.started_at is None:
            self._held.remove(held)

    def _give_back(self, jobs: list[HeldJob]) -> None:
        for held in reversed(jobs):  # each comes before those that wait
            self._send_end(held, LeaseEnd(held.leased.number, held.token, How.RETURNED))

    # Handlers

    def begin(self, held: HeldJob) -> bool:
        """Note that a handler is about to run; False: it must not, the job is another's by now."""
        return self._held.begin(held)

    def end(self, held: HeldJob, error: BaseException | None) -> None:
        """Note that a handler has returned or, with an `error`, raised; tells the server."""
        if held.started_at is not None:
            self._pace.add(self._lease_clock() - held.started_at)
        self._held.end(held)
        if self._stop_seconds is None:
            self._set_stalled(self._stalled - {self._handlers[held.leased.kind].is_async})
        end = LeaseEnd(held.leased.number, held.token, How.DONE)
        try:
            if error is not None:
                self._note_failure(held.leased, end, error)
        finally:  # also if the program's log raises
            self._send_end(held, end)
        self._set_pace()
        self._wake_if_stopping()

    def _note_failure(self, leased: LeasedJob, end: LeaseEnd, error: BaseException) -> None:
        retry = self._handlers[leased.kind].retry
        end.how = How.FAILED
        end.delay_ms = int(1000 * retry.seconds_after(leased.attempt, self._platform.uniform))
        end.error = ": ".join(described(error))[:_ERROR_LENGTH]
        log.warning("worker %r: attempt %d of %d at job %r has failed", self._settings.name,
                    leased.attempt, retry.max_attempts, leased.op_id, exc_info=error)  # fmt: skip

    def _send_again(self) -> None:
        again, self._again = self._again, []
        for held, end in again:
            self._send_end(held, end)

    def _send_end(self, held: HeldJob, end: LeaseEnd) -> None:
        try:
            reply = self._calls.finish(end)
        except ServiceError as error:  # closed: the lease ends by itself
            log.warning("worker %r: %s", self._settings.name, error)
            return
        self._unanswered.add(reply)
        reply.add_done_callback(partial(self._on_answer, held, end))

    def _on_answer(self, held: HeldJob, end: LeaseEnd, reply: Any) -> None:
        self._on_ended(held, end, reply)
        self._unanswered.discard(reply)
        if not self._unanswered and not self._again:
            self._wake_if_stopping()

    def _on_ended(self, held: HeldJob, end: LeaseEnd, reply: Any) -> None:
        error = reply.exception()
        if isinstance(error, StoreFailed):
            self._again.append((held, end))
            return
        if error is None and not reply.result() and held.token != end.token:
            end.token = held.token  # meanwhile it was leased to this worker again
            self._send_end(held, end)
            return
        self._held.remove(held)
        name = self._settings.name
        if error is not None:
            log.warning("worker %r: job %r: %s", name, held.leased.op_id, error)
        elif not reply.result():
            self._counts.add(lost=1)
            log.warning("worker %r had lost its lease of job %r", name, held.leased.op_id)
        elif end.how == How.DONE:
            self._counts.add(done=1)
        elif end.how == How.FAILED:
            self._counts.add(failed=1)


def _nothing() -> None:
    """Wake no thread: none steps the loop yet."""
