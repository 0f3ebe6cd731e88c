"""HandlerThreads: where a worker runs its handlers: threads, and an event loop in one more.

Any thread may add jobs; `start` and `stop` are for the thread that runs the worker.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from purgatory.service.client.functions import refuse_unfinished
from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.encoding import unpack_or_raw
from purgatory.service.worker.handlers import Handler, Job
from purgatory.service.worker.held_jobs import HeldJob

log: logging.Logger = logging.getLogger(__name__)


class HandlerThreads:
    """Runs up to `concurrency` plain handlers in threads, and as many coroutines in an event loop.

    `handlers`: by kind of job. `tracer` makes a span of each attempt at a job that was scheduled
    within a trace.
    """

    def __init__(
        self,
        name: str,
        concurrency: int,
        handlers: Mapping[str, Handler],
        tracer: OperationTracer | None,
    ) -> None:
        self._name = name
        self._concurrency = concurrency
        self._handlers = handlers
        self._tracer = tracer
        self._begin: Callable[[HeldJob], bool]
        self._end: Callable[[HeldJob, BaseException | None], None]
        self._queue: queue.SimpleQueue[HeldJob | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False  # the event loop
        self._room = asyncio.Semaphore(concurrency)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        begin: Callable[[HeldJob], bool],
        end: Callable[[HeldJob, BaseException | None], None],
    ) -> None:
        """Start the threads that the handlers need.

        `begin` is called before a handler, and returns whether it may run; `end` after it.
        """
        self._begin, self._end = begin, end
        asyncs = {handler.is_async for handler in self._handlers.values()}
        if False in asyncs:
            for n in range(self._concurrency):
                self._start_thread(self._work, f"{self._name}-{n}")
        if True in asyncs:
            self._loop = asyncio.new_event_loop()
            self._start_thread(self._run_loop, f"{self._name}-loop")

    def _start_thread(self, target: Callable[[], None], name: str) -> None:
        # Daemons: a handler that never returns does not keep the process alive.
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def add(self, held: HeldJob) -> None:
        """Have a job run."""
        if not self._handlers[held.leased.kind].is_async:
            self._queue.put(held)
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._start_task, held)

    def _work(self) -> None:
        while (held := self._queue.get()) is not None:
            try:
                if self._begin(held):
                    with self._attempt(held) as job:
                        refuse_unfinished("handler", self._handlers[job.kind].function(job))
            except BaseException:
                log.exception("worker %r: job %r", self._name, held.leased.op_id)

    @contextlib.contextmanager
    def _attempt(self, held: HeldJob) -> Iterator[Job]:
        """Run the block with a job, and end the lease with the error that it raises, if it does."""
        error: BaseException | None = None
        try:
            traceparent, payload = unwrap(held.leased.payload)
            job = _job(held, unpack_or_raw(payload))
            if self._tracer is None or not traceparent:
                yield job
            else:
                with self._tracer.attempted(held.leased, traceparent):
                    yield job
        except BaseException as raised:  # noqa: BLE001  # a thread that is to exit, a cancelled task
            error = raised
        self._end(held, error)

    def _run_loop(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        while not self._is_stopping:  # a handler can stop the loop, and raise in its callbacks
            try:
                self._loop.run_forever()
            except BaseException:
                log.exception("worker %r: the event loop goes on", self._name)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _start_task(self, held: HeldJob) -> None:
        assert self._loop is not None
        task = self._loop.create_task(self._run_in_turn(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_in_turn(self, held: HeldJob) -> None:
        async with self._room:
            if self._begin(held):
                with self._attempt(held) as job:
                    result = await self._handlers[job.kind].function(job)
                    refuse_unfinished("handler", result)

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
        self._is_stopping = True
        self._loop.stop()


def _job(held: HeldJob, payload: object) -> Job:
    """Return what the handler gets."""
    leased = held.leased
    submitted_ms, due_ms = leased.submitted_ms, leased.deadline_ms
    return Job(leased.op_id, leased.kind, payload, leased.attempt, held.token, submitted_ms, due_ms)
