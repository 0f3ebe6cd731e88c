"""Worker: runs the due jobs of a client name, sharing them with other workers of the name.

Any thread may call `run` and `stop`. Handlers run in the worker's threads, coroutine functions in
its event loop.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, Self, TypeVar

from _purgatory_cpython import at_exit
from _purgatory_cpython.threads import InterruptibleEvent, InterruptibleThread
from purgatory.service.client.arguments import (
    Duration,
    check_methods,
    checked_filled,
    checked_seconds,
    checked_text,
    duration_ms,
)
from purgatory.service.client.client import DEFAULT_ADDRESS, Client, check_helpers
from purgatory.service.client.route.addresses import parse_addresses
from purgatory.service.client.route.socket_options import socket_options
from purgatory.service.client.trace_context import OperationTracer
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.worker.demand import WorkerSettings
from purgatory.service.worker.handler_threads import HandlerThreads
from purgatory.service.worker.handlers import (
    Handler,
    HandlerFunction,
    check_concurrency,
    check_limits,
    check_retry,
    make_handler,
)
from purgatory.service.worker.lease_returns import WorkerCounts
from purgatory.service.worker.worker_loop import JOIN_S, WorkerLoop
from purgatory.service.worker.worker_metrics import (
    WorkerCollector,
    checked_port,
    serve_worker_metrics,
)

log: logging.Logger = logging.getLogger(__name__)

#: The default of `stop`.
STOP_TIMEOUT_S: Final = 30.0
#: Options of the `Client` that a worker makes.
_CLIENT_OPTIONS: Final = frozenset(
    ("timeout", "tracer", "platform", "server_key", "public_key", "secret_key", "lost_after")
)
# Most seconds to report the last ends.
_FLUSH_S: Final = 10.0

_F = TypeVar("_F", bound=HandlerFunction)


class Worker:
    """Runs the jobs of the client `name` at a server.

    At most `concurrency` plain handlers run at a time, in threads, and as many coroutine functions.
    `lease`: seconds that a job stays leased without a sign of the worker. `max_attempts`,
    `retry_delay` and `max_retry_delay`: defaults for handlers, see `on`. `metrics_port`: serve
    metrics for Prometheus at `metrics_addr` during the run; 0 takes a free port, which the
    attribute then has. Other arguments: see `Client`; `tracer` makes a span for each attempt at a
    traced job.

    Raises TypeError and ValueError.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        name: str,
        concurrency: int = 8,
        lease: Duration = 60.0,
        max_attempts: int = 5,
        retry_delay: Duration = 1.0,
        max_retry_delay: Duration = 600.0,
        metrics_port: int | None = None,
        metrics_addr: str = "127.0.0.1",
        **client_options: Any,
    ) -> None:
        parse_addresses(address)  # only to raise early
        self.address = address
        self.metrics_port: int | None = checked_port(metrics_port)
        self._metrics_addr = checked_text(metrics_addr, "metrics_addr")
        self.name: str = checked_filled(name, "name")
        self._concurrency = check_concurrency(concurrency)
        self._lease_ms = duration_ms(lease, "lease")
        if self._lease_ms < 100:
            raise ValueError(f"lease is {lease!r}; expected 0.1 seconds or more")
        self._retry = check_retry(max_attempts, retry_delay, max_retry_delay)
        for option in client_options.keys() - _CLIENT_OPTIONS:
            raise TypeError(f"Worker got an unexpected keyword argument {option!r}")
        _check_client_options(**client_options)
        self._client_options = client_options
        self._handlers: dict[str, Handler] = {}
        self._tracer: OperationTracer | None = client_options.get("tracer")
        self.counts: WorkerCounts = WorkerCounts()
        self._thread: threading.Thread | None = None
        self._threads: HandlerThreads | None = None
        self._run_lock = threading.Lock()  # held during the run
        self._has_run = False
        self._reset()
        at_exit.register_locks(self)

    def _reset(self) -> None:
        self._loop: WorkerLoop | None = None
        self._wake = InterruptibleEvent()
        self._stop_seconds: float | None = None  # set by `stop`
        self._failure: Exception | None = None  # of the thread

    def serve_metrics_at(self, port: int, addr: str = "127.0.0.1") -> None:
        """Serve metrics from the next run on; see `metrics_port`. Raises TypeError, ValueError."""
        self.metrics_port = checked_port(port)
        self._metrics_addr = checked_text(addr, "addr")

    @property
    def running(self) -> int:
        """How many handlers run."""
        return 0 if self._loop is None else self._loop.running

    def on(
        self,
        kind: str,
        *,
        timeout: Duration | None = None,
        concurrency: int | None = None,
        max_attempts: int | None = None,
        retry_delay: Duration | None = None,
        max_retry_delay: Duration | None = None,
    ) -> Callable[[_F], _F]:
        """Return a decorator: the function, of a `Job`, handles jobs of this kind.

        When the handler returns, the job is done; the server stores the result. If the handler
        raises, the job is retried after about `retry_delay` seconds, then twice that and so on, at
        most `max_retry_delay`. When `max_attempts` have failed, the job is dead, see
        `Client.retry_job`.

        `timeout`: a longer attempt, in seconds, fails. A coroutine is cancelled. A thread cannot be
        stopped: a new thread takes its place, and the handler's result is ignored. If more handlers
        than `concurrency` hang so, the worker gives back its jobs, and `run` and `wait` raise
        WorkerStuck. `concurrency`: most running handlers of the kind.

        Raises TypeError, ValueError, also if the kind has a handler, and RuntimeError while the
        worker runs.
        """
        limits = check_limits(timeout, concurrency)
        usual = self._retry
        retry = check_retry(
            usual.max_attempts if max_attempts is None else max_attempts,
            usual.delay if retry_delay is None else retry_delay,
            usual.max_delay if max_retry_delay is None else max_retry_delay,
        )
        kind = checked_text(kind, "kind")

        def register(function: _F) -> _F:
            if self._run_lock.locked():
                raise RuntimeError(
                    f"worker {self.name!r} runs, so a handler of kind {kind!r} would get no job; "
                    "expected @worker.on(kind) before start() or run(), or after the end of the run"
                )
            if kind in self._handlers:
                raise ValueError(f"kind {kind!r} has a handler already")
            self._handlers[kind] = make_handler(function, retry, limits)
            return function

        return register

    def run(self) -> None:
        """Run jobs until `stop`; while no server answers, wait. May be called again.

        Raises ValueError without a handler, RuntimeError if the worker runs already or no thread is
        left, MetricsError if `metrics_port` is taken, `Refused`, Unavailable and WorkerStuck.
        """
        self._begin()
        self._run()

    def _begin(self) -> None:
        if not self._handlers:
            raise ValueError("the worker has no handler; expected some, by @worker.on(kind)")
        if not self._run_lock.acquire(blocking=False):
            raise RuntimeError(f"worker {self.name!r} runs already")
        if self._has_run:  # before the first run keep an early `stop`
            self._reset()

    def _run(self) -> None:
        try:
            with self._metrics():
                self._run_jobs()
        finally:
            self._has_run = True
            self._run_lock.release()

    @contextlib.contextmanager
    def _metrics(self) -> Iterator[None]:
        if self.metrics_port is None:
            yield
            return
        collector = WorkerCollector(self.counts, lambda: self.running, self._concurrency)
        with serve_worker_metrics(self.metrics_port, self._metrics_addr, collector) as served:
            self.metrics_port = served.port
            yield

    def _run_jobs(self) -> None:
        with Client(self.address, name=self.name, **self._client_options) as client:
            threads = HandlerThreads(
                f"{self.name}-worker", self._concurrency, self._handlers, self._tracer
            )
            loop = self._make_loop(client, threads)
            self._threads = threads
            try:
                threads.start(loop.begin, loop.end)
                loop.start()
                self._drive(loop)
            finally:
                if self._stop_seconds is None:  # the loop has failed, no thread, or an interrupt
                    loop.stop(STOP_TIMEOUT_S)
                self._drive(loop)
            if loop.failure is not None:
                raise loop.failure

    def _make_loop(self, client: Client, threads: HandlerThreads) -> WorkerLoop:
        flush_s = min(client.timeout, _FLUSH_S)
        settings = WorkerSettings(
            self.name, self.address, self._concurrency, self._lease_ms, flush_s
        )
        loop = WorkerLoop(
            settings, self._handlers, client.job_calls, threads, self.counts, client.platform
        )
        loop.wake = self._wake.set
        self._loop = loop
        if self._stop_seconds is not None:  # before `_loop` was set
            loop.stop(self._stop_seconds)
        return loop

    def _drive(self, loop: WorkerLoop) -> None:
        while not loop.finished():
            self._wake.wait(loop.sleep_seconds())
            self._wake.clear()
            loop.step()

    def start(self) -> None:
        """Run jobs in a thread, until `stop`. Raises ValueError and RuntimeError as `run`."""
        self._begin()
        self._thread = InterruptibleThread(
            target=self._run_in_thread, name=f"{self.name}-worker", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:  # no thread is left
            self._thread = None
            self._run_lock.release()
            raise

    def _run_in_thread(self) -> None:
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  # raised by `wait`
            log.error("worker %r ends: %s", self.name, error)  # noqa: TRY400  # without a traceback
            self._failure = error

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait for the end of a started worker; False after `timeout` seconds.

        Raises the error that ended the worker, TypeError and ValueError.
        """
        seconds = None if timeout is None else checked_seconds(timeout, "timeout")
        if self._thread is None:
            return True
        self._thread.join(seconds)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def stop(self, timeout: Duration = STOP_TIMEOUT_S) -> None:
        """Take no more jobs, wait up to `timeout` seconds for handlers, give back the rest.

        Waits for the end of a started worker, unless a handler calls. A second call can only
        shorten the time. Raises TypeError and ValueError.
        """
        seconds = checked_seconds(timeout, "timeout")
        self._stop_seconds = seconds
        if self._loop is not None:
            self._loop.stop(seconds)
        if self._thread is not None and not self._is_own_thread():
            self._thread.join(seconds + 2 * JOIN_S + _FLUSH_S)

    def _is_own_thread(self) -> bool:
        """Whether a handler calls."""
        here = threading.current_thread()
        return here is self._thread or (self._threads is not None and self._threads.has(here))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has locks and threads")

    def __repr__(self) -> str:
        return f"<Worker {self.name!r} of {self.address}, {self.running} running>"


def _check_client_options(
    timeout: Duration = 30.0,
    tracer: "OperationTracer | None" = None,
    platform: Platform = REAL_PLATFORM,
    **others: Any,
) -> None:
    """Raise the errors of `Client` now, not in the worker's thread."""
    check_helpers(tracer, platform)
    check_methods(tracer, "tracer", ("attempted",))
    checked_seconds(timeout, "timeout")
    socket_options(**others)
