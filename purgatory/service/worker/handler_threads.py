"""HandlerThreads: where a worker runs its handlers: threads, and an event loop in one more.

And `HandlerCalls`: calls them, plain functions in those threads, coroutine functions in the loop.

Any thread may add calls; `start` and `stop` are for the thread that runs the worker.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.encoding import unpack_or_raw
from purgatory.service.worker.handlers import Handler, Job
from purgatory.service.worker.held_jobs import HeldJob
from purgatory.service.worker.worker_loop import WorkerLoop

#: Runs a job in a thread, and in the event loop.
RunJob = Callable[[HeldJob], None]
RunJobAsync = Callable[[HeldJob], Coroutine[Any, Any, None]]


class HandlerThreads:
    """Runs up to `concurrency` jobs in threads, and as many in an event loop."""

    def __init__(self, name: str, concurrency: int) -> None:
        self._name = name
        self._concurrency = concurrency
        self._run: RunJob
        self._run_async: RunJobAsync
        self._queue: queue.SimpleQueue[HeldJob | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._room: asyncio.Semaphore | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: RunJob | None, run_async: RunJobAsync | None) -> None:
        """Start the threads that are needed, to `run` jobs, or await `run_async` of them."""
        if run is not None:
            self._run = run
            for n in range(self._concurrency):
                self._start_thread(self._work, f"{self._name}-{n}")
        if run_async is not None:
            self._run_async = run_async
            self._loop = asyncio.new_event_loop()
            self._room = asyncio.Semaphore(self._concurrency)
            self._start_thread(self._run_loop, f"{self._name}-loop")

    def _start_thread(self, target: Callable[[], None], name: str) -> None:
        # Daemons: a handler that never returns does not keep the process alive.
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def add(self, held: HeldJob, *, is_async: bool) -> None:
        """Have a job run."""
        if not is_async:
            self._queue.put(held)
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._start_task, held)

    def _work(self) -> None:
        while (held := self._queue.get()) is not None:
            self._run(held)

    def _run_loop(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _start_task(self, held: HeldJob) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._run_in_turn(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_in_turn(self, held: HeldJob) -> None:
        assert self._room is not None
        async with self._room:
            await self._run_async(held)

    def stop(self, seconds: float) -> None:
        """End the threads; handlers of the event loop that still run are cancelled."""
        for _ in range(self._concurrency):
            self._queue.put(None)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel_tasks)
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _cancel_tasks(self) -> None:
        assert self._loop is not None
        for task in self._tasks:
            task.cancel()
        self._loop.create_task(self._stop_when_cancelled())

    async def _stop_when_cancelled(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._loop is not None
        self._loop.stop()


class HandlerCalls:
    """Calls `handlers`, by kind of job, and tells `loop`; `tracer` makes spans of the attempts."""

    def __init__(
        self, handlers: Mapping[str, Handler], loop: WorkerLoop, tracer: OperationTracer | None
    ) -> None:
        self._handlers = handlers
        self._loop = loop
        self._tracer = tracer

    def run(self, held: HeldJob) -> None:
        """Run a handler in this thread, and end the lease."""
        if not self._loop.begin(held):
            return
        error: BaseException | None = None
        try:
            with self._span(held):
                self._handlers[held.leased.kind].function(_job(held))
        except BaseException as raised:  # noqa: BLE001  # also of a thread that is told to exit
            error = raised
        self._loop.end(held, error)

    async def run_async(self, held: HeldJob) -> None:
        """Await a handler in the event loop, and end the lease."""
        if not self._loop.begin(held):
            return
        error: BaseException | None = None
        try:
            with self._span(held):
                await self._handlers[held.leased.kind].function(_job(held))
        except BaseException as raised:  # noqa: BLE001  # also if it is cancelled
            error = raised
        self._loop.end(held, error)

    def _span(self, held: HeldJob) -> contextlib.AbstractContextManager[object]:
        """Return what a handler runs within: a span, if the job was scheduled within a trace."""
        traceparent, _ = unwrap(held.leased.payload)
        if self._tracer is None or not traceparent:
            return contextlib.nullcontext()
        return self._tracer.attempted(held.leased, traceparent)


def _job(held: HeldJob) -> Job:
    """Return what the handler gets."""
    leased = held.leased
    payload = unpack_or_raw(unwrap(leased.payload)[1])
    submitted_ms, due_ms = leased.submitted_ms, leased.deadline_ms
    return Job(leased.op_id, leased.kind, payload, leased.attempt, held.token, submitted_ms, due_ms)
