"""HandlerThreads: the threads and the event loop that run a worker's handlers.

Any thread may add jobs; `start` and `stop` are for the worker's thread.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.service.client.functions import refuse_unfinished
from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.encoding import unpack_or_raw
from purgatory.service.worker.handlers import Handler, Job
from purgatory.service.worker.held_jobs import HeldJob


class KindSlots:
    """Starts jobs; `limits`: of running jobs, by kind.

    Waiting jobs take no thread from other kinds.
    """

    def __init__(self, limits: Mapping[str, int], start: Callable[[HeldJob], None]) -> None:
        self._start = start
        self._free = dict(limits)
        self._waiting: dict[str, deque[HeldJob]] = {kind: deque() for kind in limits}
        self._lock = threading.Lock()

    def add(self, held: HeldJob) -> None:
        """Start a job, now or when a slot of its kind is free."""
        kind = held.leased.kind
        if kind in self._free:
            with self._lock:
                if not self._free[kind]:
                    self._waiting[kind].append(held)
                    return
                self._free[kind] -= 1
        self._start(held)

    def free(self, held: HeldJob) -> None:
        """Pass the slot of an ended job on."""
        kind = held.leased.kind
        if kind not in self._free:
            return
        with self._lock:
            waiting = self._waiting[kind]
            if not waiting:
                self._free[kind] += 1
                return
            following = waiting.popleft()
        self._start(following)


log: logging.Logger = logging.getLogger(__name__)

_NO_SPAN: Final = contextlib.nullcontext()


class HandlerThreads:
    """Runs `concurrency` plain handlers in threads, and as many coroutines in an event loop."""

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
        self._thread_count = 0
        limits = {
            kind: handler.limits.concurrency
            for kind, handler in handlers.items()
            if handler.limits.concurrency is not None
        }
        self._slots = KindSlots(limits, self._run) if limits else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False  # the event loop
        self._room = asyncio.Semaphore(concurrency)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self, begin: Callable[[HeldJob], bool], end: Callable[[HeldJob, BaseException | None], None]
    ) -> None:
        """Start the threads that the handlers need; see `HandlerRunner.add`.

        If no thread is left, raises RuntimeError; `stop` ends the started threads.
        """
        self._begin, self._end = begin, end
        asyncs = {handler.is_async for handler in self._handlers.values()}
        if False in asyncs:
            for _ in range(self._concurrency):
                self._start_worker_thread()
        if True in asyncs:
            self._start_loop()

    def _start_loop(self) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            self._start_thread(self._run_loop, f"{self._name}-loop")
        except BaseException:
            self._loop.close()
            raise

    def has(self, thread: threading.Thread) -> bool:
        """Whether handlers run in a thread."""
        return thread in self._threads

    def _start_thread(self, target: Callable[[], None], name: str) -> None:
        # A hanging handler does not keep the process alive.
        thread = InterruptibleThread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _start_worker_thread(self) -> None:
        self._start_thread(self._work, f"{self._name}-{self._thread_count}")
        self._thread_count += 1

    def add(self, held: HeldJob) -> None:
        """Have a job run."""
        if self._slots is None:
            self._run(held)
        else:
            self._slots.add(held)

    def _free(self, held: HeldJob) -> None:
        if self._slots is not None:
            self._slots.free(held)

    def _run(self, held: HeldJob) -> None:
        if not self._handlers[held.leased.kind].is_async:
            self._queue.put(held)
        else:
            self._call_in_loop(self._start_task, held)

    def _call_in_loop(self, callback: Callable[..., object], *arguments: HeldJob) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed: the worker has stopped
                self._loop.call_soon_threadsafe(callback, *arguments)

    def _work(self) -> None:
        thread = threading.current_thread()
        while (held := self._queue.get()) is not None:
            held.thread = thread
            try:
                if self._begin(held):
                    self._end(held, self._error_of(held))
            except BaseException:
                log.exception("worker %r: job %r", self._name, held.leased.op_id)
            if held.is_lost:  # another thread has taken its place
                return
            self._free(held)

    def lose(self, held: HeldJob) -> None:
        """Give the place of an `is_lost` job to another job.

        A coroutine is cancelled; a thread goes on.
        """
        if held.thread is not None:
            self._threads.remove(held.thread)
            self._start_worker_thread()
            self._free(held)
        else:
            self._call_in_loop(self._lose_task, held)

    def _lose_task(self, held: HeldJob) -> None:
        self._room.release()
        self._free(held)
        if held.task is not None:
            held.task.cancel()

    def cancel(self, held: HeldJob) -> None:
        """Cancel a running coroutine; a thread is not stopped."""
        if held.task is not None:
            self._call_in_loop(held.task.cancel)

    def _error_of(self, held: HeldJob) -> BaseException | None:
        """Run a handler; return its exception, SystemExit included."""
        try:
            traceparent, job = _job(held)
            with self._span(held, traceparent):
                held.result = self._handlers[job.kind].function(job)
                refuse_unfinished("handler", held.result)
        except BaseException as error:  # noqa: BLE001
            return error
        return None

    async def _error_of_coroutine(self, held: HeldJob) -> BaseException | None:
        """Like `_error_of`, CancelledError included."""
        try:
            traceparent, job = _job(held)
            with self._span(held, traceparent):
                held.result = await self._handlers[job.kind].function(job)
                refuse_unfinished("handler", held.result)
        except BaseException as error:  # noqa: BLE001
            return error
        return None

    def _span(self, held: HeldJob, traceparent: str) -> contextlib.AbstractContextManager[object]:
        if self._tracer is None or not traceparent:
            return _NO_SPAN
        return self._tracer.attempted(held.leased, traceparent)

    def _run_loop(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        while not self._is_stopping:  # a handler may stop the loop, or raise in callbacks
            try:
                self._loop.run_forever()
            except BaseException:
                log.exception("worker %r: the event loop continues", self._name)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _start_task(self, held: HeldJob) -> None:
        assert self._loop is not None
        task = held.task = self._loop.create_task(self._run_in_turn(held))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_in_turn(self, held: HeldJob) -> None:
        await self._room.acquire()
        try:
            if self._begin(held):
                self._end(held, await self._error_of_coroutine(held))
        finally:
            if not held.is_lost:  # else `_lose_task` releases
                self._room.release()
                self._free(held)

    def stop(self, seconds: float) -> None:
        """End the threads, and cancel running coroutines."""
        for _ in range(self._concurrency):
            self._queue.put(None)
        self._call_in_loop(self._cancel_tasks)
        end = time.monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():  # else it may not have been started
                thread.join(max(0.0, end - time.monotonic()))

    def _cancel_tasks(self) -> None:
        assert self._loop is not None
        for task in self._tasks:
            task.cancel()
        self._loop.create_task(self._stop_when_cancelled())

    async def _stop_when_cancelled(self) -> None:
        while self._tasks:  # `gather` would not wait for the callbacks of ended tasks
            await asyncio.wait(self._tasks)
        assert self._loop is not None
        self._is_stopping = True
        self._loop.stop()


def _job(held: HeldJob) -> tuple[str, Job]:
    leased = held.leased
    traceparent, payload = unwrap(leased.payload)
    return traceparent, Job(
        leased.op_id,
        leased.kind,
        unpack_or_raw(payload),
        leased.attempt,
        held.token,
        leased.submitted_ms,
        leased.deadline_ms,
        tuple(leased.tags),
        held,
    )
