"""Worker: runs the jobs that are due of one client name, beside other workers of that name.

The server leases each job to one worker at a time. The worker keeps the lease while the handler
runs, and ends it when that has returned; if the worker dies, the job goes to another one.

`run` and `stop` may be called by any thread; handlers run in threads of the worker, coroutine
functions in an event loop of its own.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from purgatory.service.client.client import DEFAULT_ADDRESS, Client
from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.client.worker_link import WorkerLink
from purgatory.service.errors import ServiceError, StoreFailed, Unavailable
from purgatory.service.job_messages import How, LeasedJob, LeaseEnd
from purgatory.service.protocol import unpack_or_raw
from purgatory.service.worker.ask_watch import AskWatch
from purgatory.service.worker.handler_threads import HandlerThreads
from purgatory.service.worker.handlers import (
    Handler,
    HandlerFunction,
    Retry,
    check_retry,
    make_handler,
)
from purgatory.service.worker.held_jobs import HeldJob, HeldJobs
from purgatory.service.worker.job import Job
from purgatory.service.worker.pace import Pace
from purgatory.service.worker.worker_counts import WorkerCounts
from timingwheel.lowlevel import to_ms

log: logging.Logger = logging.getLogger(__name__)

#: Seconds that `stop` waits for handlers that run.
STOP_TIMEOUT_S: Final = 30.0
# Seconds between two looks at the leases, at most.
_LOOK_S: Final = 1.0
# Characters of an error that are kept of a job that was given up.
_ERROR_LENGTH: Final = 500
# Seconds in which the last ends should reach the server.
_FLUSH_S: Final = 10.0
# Seconds that threads are waited for which should have ended.
_JOIN_S: Final = 2.0
# How many jobs a worker may run at a time.
_MAX_CONCURRENCY: Final = 1000

_F = TypeVar("_F", bound=HandlerFunction)


class Worker:
    """Runs the jobs of the client `name` at a server.

    At most `concurrency` plain handlers run at a time, in threads, and as many coroutine functions.
    `lease`, seconds: for so long a job is this worker's if nothing is heard of it; the lease of a
    handler that runs is kept. `max_attempts`, `retry_delay` and `max_retry_delay` are for handlers
    that do not say otherwise. Other arguments are those of `Client`; its `tracer` makes a span for
    each attempt at a job that was scheduled within a trace.

    Raises TypeError and ValueError for bad arguments.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        name: str,
        concurrency: int = 8,
        lease: float | timedelta = 60.0,
        max_attempts: int = 5,
        retry_delay: float = 1.0,
        max_retry_delay: float = 600.0,
        **client_options: Any,
    ) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int):
            raise TypeError(f"concurrency is {concurrency!r}; expected an int")
        if not 1 <= concurrency <= _MAX_CONCURRENCY:
            raise ValueError(f"concurrency is {concurrency}; expected 1 to {_MAX_CONCURRENCY}")
        self.address = address
        self.name = name
        self._concurrency = concurrency
        self._lease_ms = to_ms(lease)
        if self._lease_ms < 100:
            raise ValueError(f"lease is {lease!r}; expected 0.1 seconds or more")
        self._retry = check_retry(Retry(max_attempts, retry_delay, max_retry_delay))
        self._client_options = client_options
        self._handlers: dict[str, Handler] = {}
        self._tracer: OperationTracer | None = client_options.get("tracer")
        self.counts: WorkerCounts = WorkerCounts()
        self._thread: threading.Thread | None = None
        self._run_lock = threading.Lock()  # held while it runs
        self._has_run = False
        self._reset()

    def _reset(self) -> None:
        """Make what belongs to one run."""
        self._held = HeldJobs(self._lease_ms / 1000)
        self._pace = Pace(self._concurrency)
        self._threads = HandlerThreads(
            f"{self.name}-worker", self._concurrency, self._run_job, self._run_job_async
        )
        self._client: Client | None = None
        self._again: list[tuple[HeldJob, LeaseEnd]] = []  # ends that the server could not write
        self._wake = threading.Event()
        self._stop_seconds: float | None = None  # set when it is to stop
        self._asked = AskWatch(self.name, self.address)
        self._failure: Exception | None = None  # what has ended the thread

    @property
    def running(self) -> int:
        """How many handlers run now."""
        return self._held.running

    def on(
        self,
        kind: str,
        *,
        max_attempts: int | None = None,
        retry_delay: float | None = None,
        max_retry_delay: float | None = None,
    ) -> Callable[[_F], _F]:
        """Return a decorator: the function, of a `Job`, handles jobs of this kind.

        When it returns, the job is done. If it raises, the job is tried again after about
        `retry_delay` seconds, then twice that and so on, until `max_attempts` have failed: then it
        is dead, see `Client.dead_jobs`. Raises ValueError if the kind has a handler.
        """
        usual = self._retry
        retry = Retry(
            usual.max_attempts if max_attempts is None else max_attempts,
            usual.delay if retry_delay is None else retry_delay,
            usual.max_delay if max_retry_delay is None else max_retry_delay,
        )
        check_retry(retry)

        def register(function: _F) -> _F:
            if kind in self._handlers:
                raise ValueError(f"kind {kind!r} has a handler")
            self._handlers[kind] = make_handler(function, retry)
            return function

        return register

    def run(self) -> None:
        """Run jobs until `stop` is called; while no server answers, wait for one.

        It can be run again then. Raises ValueError if there is no handler, RuntimeError if it runs
        already, `Refused`, and Unavailable.
        """
        self._begin()
        self._run()

    def _begin(self) -> None:
        """Have this be the one run of the worker."""
        if not self._handlers:
            raise ValueError("the worker has no handler; expected some, by @worker.on(kind)")
        if not self._run_lock.acquire(blocking=False):
            raise RuntimeError(f"worker {self.name!r} runs already")
        if self._has_run:  # else `stop` may have been called already
            self._reset()

    def _run(self) -> None:
        try:
            self._run_jobs()
        finally:
            self._has_run = True
            self._run_lock.release()

    def _run_jobs(self) -> None:
        asyncs = {handler.is_async for handler in self._handlers.values()}
        self._pace = Pace(self._concurrency * len(asyncs))
        with Client(self.address, name=self.name, **self._client_options) as client:
            self._client = client
            self._threads.start(sync=False in asyncs, with_loop=True in asyncs)
            try:
                self._ask(self._pace.room)
                while self._stop_seconds is None:
                    self._wake.wait(min(_LOOK_S, self._lease_ms / 3000))
                    self._look()
                    self._asked.check()
            finally:
                self._finish(client)

    def _finish(self, client: Client) -> None:
        """Let handlers return that run, and give back what they do not finish, or did not begin."""
        seconds = STOP_TIMEOUT_S if self._stop_seconds is None else self._stop_seconds
        end = time.monotonic() + seconds
        with contextlib.suppress(Unavailable):
            self._ask(0)
        self._give_back(self._held.take_waiting(0))
        while time.monotonic() < end and not self._held.wait_until_idle(
            min(_LOOK_S, self._lease_ms / 3000, max(0.0, end - time.monotonic()))
        ):
            self._keep()
        self._give_back(self._held.take_waiting(0) + self._held.unfinished())
        self._threads.stop(_JOIN_S)
        try:
            client.flush(min(client.timeout, _FLUSH_S))
        except ServiceError as error:
            log.warning("worker %r: %s", self.name, error)  # the leases end by themselves

    def start(self) -> None:
        """Run jobs in a thread of its own, until `stop`. Raises what `run` raises at once."""
        self._begin()
        self._thread = threading.Thread(
            target=self._run_in_thread, name=f"{self.name}-worker", daemon=True
        )
        self._thread.start()

    def _run_in_thread(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  # raised by `wait`
            log.error("worker %r ends: %s", self.name, error)  # noqa: TRY400  # without a traceback
            self._failure = error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of a worker that was started; False if it has not ended by then.

        Raises what has ended it.
        """
        if self._thread is None:
            return True
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def stop(self, timeout: float = STOP_TIMEOUT_S) -> None:
        """Take no more jobs, wait `timeout` s at most for handlers that run, give back the rest.

        Of a worker that was started by `start`, wait until it has ended.
        """
        self._stop_seconds = timeout
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout + 2 * _JOIN_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _ask(self, room: int) -> None:
        assert self._client is not None
        kinds = {kind: handler.retry.max_attempts for kind, handler in self._handlers.items()}
        asks = kinds, room, self._lease_ms, False
        link = WorkerLink(asks, self._on_jobs, self._on_connected)
        self._asked.begin(self._client.job_calls.ask(link))

    def _on_connected(self) -> None:
        """Drop what was not begun: those leases ended with the connection before."""
        self._held.take_waiting(0)

    def _on_jobs(self, jobs: list[LeasedJob]) -> None:
        for leased in jobs:
            held = self._held.add(leased)
            if held is not None:
                self._threads.add(held, is_async=self._handlers[leased.kind].is_async)
        if self._stop_seconds is not None:  # they were on their way when it was told to
            self._give_back(self._held.take_waiting(0))

    def _look(self) -> None:
        """Keep leases, send ends again, and have more or fewer jobs at a time."""
        self._keep()
        again, self._again = self._again, []
        for held, end in again:
            self._end(held, end)
        started = [held.started_at for held in self._held.unfinished() if held.started_at]
        oldest = time.monotonic() - min(started) if started else 0.0
        self._set_pace(oldest)

    def _set_pace(self, oldest: float = 0.0) -> None:
        before = self._pace.room
        if self._pace.look(oldest) and self._stop_seconds is None:
            self._ask(self._pace.room)
            if self._pace.room < before:
                self._give_back(self._held.take_waiting(self._pace.room))

    def _keep(self) -> None:
        assert self._client is not None
        for held in self._held.to_keep(time.monotonic() - self._lease_ms / 3000):
            reply = self._client.job_calls.keep(held.lease)
            reply.add_done_callback(partial(self._on_kept, held))

    def _on_kept(self, held: HeldJob, reply: Any) -> None:
        if reply.exception() is None and not reply.result() and not held.is_ending:
            log.warning("worker %r has lost its lease of job %r", self.name, held.leased.op_id)
            if held.started_at is None:
                self._held.remove(held)

    def _give_back(self, jobs: list[HeldJob]) -> None:
        for held in reversed(jobs):  # each comes before those that wait
            self._end(held, LeaseEnd(held.leased.number, held.token, How.RETURNED))

    def _run_job(self, held: HeldJob) -> None:
        """Run a handler in this thread, and end the lease."""
        if not self._held.begin(held):
            return
        error: BaseException | None = None
        try:
            with self._span(held):
                self._handlers[held.leased.kind].function(_job(held))
        except BaseException as raised:  # noqa: BLE001  # also of a thread that is told to exit
            error = raised
        self._on_returned(held, error)

    async def _run_job_async(self, held: HeldJob) -> None:
        """Await a handler in the event loop, and end the lease."""
        if not self._held.begin(held):
            return
        error: BaseException | None = None
        try:
            with self._span(held):
                await self._handlers[held.leased.kind].function(_job(held))
        except BaseException as raised:  # noqa: BLE001  # also if it is cancelled
            error = raised
        self._on_returned(held, error)

    def _span(self, held: HeldJob) -> contextlib.AbstractContextManager[object]:
        """Return what a handler runs within: a span, if the job was scheduled within a trace."""
        traceparent, _ = unwrap(held.leased.payload)
        if self._tracer is None or not traceparent:
            return contextlib.nullcontext()
        return self._tracer.attempted(held.leased, traceparent)

    def _on_returned(self, held: HeldJob, error: BaseException | None) -> None:
        leased = held.leased
        if held.started_at is not None:
            self._pace.add(time.monotonic() - held.started_at)
        self._held.end(held)
        end = LeaseEnd(leased.number, held.token, How.DONE)
        if error is not None:
            retry = self._handlers[leased.kind].retry
            end.how = How.FAILED
            end.delay_ms = int(1000 * retry.seconds_after(leased.attempt))
            end.error = f"{type(error).__name__}: {error}"[:_ERROR_LENGTH]
            log.warning("worker %r: attempt %d of %d at job %r has failed",
                        self.name, leased.attempt, retry.max_attempts, leased.op_id,
                        exc_info=error)  # fmt: skip
        self._end(held, end)
        self._set_pace()

    def _end(self, held: HeldJob, end: LeaseEnd) -> None:
        assert self._client is not None
        try:
            reply = self._client.job_calls.finish(end)
        except ServiceError as error:  # closed: the lease ends by itself
            log.warning("worker %r: %s", self.name, error)
            return
        reply.add_done_callback(partial(self._on_ended, held, end))

    def _on_ended(self, held: HeldJob, end: LeaseEnd, reply: Any) -> None:
        error = reply.exception()
        if isinstance(error, StoreFailed):
            self._again.append((held, end))
            return
        if error is None and not reply.result() and held.token != end.token:
            end.token = held.token  # meanwhile it was leased to this worker again
            self._end(held, end)
            return
        self._held.remove(held)
        if error is not None:
            log.warning("worker %r: job %r: %s", self.name, held.leased.op_id, error)
        elif not reply.result():
            self.counts.add(lost=1)
            log.warning("worker %r had lost its lease of job %r", self.name, held.leased.op_id)
        elif end.how == How.DONE:
            self.counts.add(done=1)
        elif end.how == How.FAILED:
            self.counts.add(failed=1)

    def __repr__(self) -> str:
        return f"<Worker {self.name!r} of {self.address}, {self.running} running>"


def _job(held: HeldJob) -> Job:
    """Return what the handler gets."""
    leased = held.leased
    payload = unpack_or_raw(unwrap(leased.payload)[1])
    submitted_ms, due_ms = leased.submitted_ms, leased.deadline_ms
    return Job(leased.op_id, leased.kind, payload, leased.attempt, held.token, submitted_ms, due_ms)
