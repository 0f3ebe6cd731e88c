"""HandlerCalls: calls the handlers of a worker, each between the begin and the end of its job.

Plain functions in the thread that calls `run`, coroutine functions in the event loop of
`run_async`.
"""

import contextlib
from collections.abc import Mapping

from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.protocol import unpack_or_raw
from purgatory.service.worker.handlers import Handler
from purgatory.service.worker.held_jobs import HeldJob
from purgatory.service.worker.job import Job
from purgatory.service.worker.worker_loop import WorkerLoop


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
