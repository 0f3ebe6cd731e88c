"""CallSender: the base of all calls of a client. Any thread may make a call."""

import itertools
from typing import Any, Final

from msgspec import Raw

from purgatory.service.client.calls import RequestType
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.io_thread import ClientIOThread
from purgatory.service.client.session import Session
from purgatory.service.client.trace_context import OperationTracer, wrap
from purgatory.service.encoding import pack
from purgatory.service.platform import Platform
from purgatory.service.protocol import NOTHING

_NOTHING: Final = Raw(NOTHING)


class CallSender:
    """Sends calls with a client's I/O thread; a `tracer` adds its context to payloads.

    A caller waits up to `seconds` while too many calls are unsent.
    """

    def __init__(
        self,
        io_thread: ClientIOThread,
        session: Session,
        seconds: float,
        tracer: OperationTracer | None,
        platform: Platform,
    ) -> None:
        self._io_thread = io_thread
        # Its lock also guards `_count`, and ids in `defer`.
        self._batcher = io_thread.batcher
        self._seconds = seconds
        self._tracer = tracer
        self._prefix = f"{platform.new_id()[:16]}-"
        self._count = itertools.count()
        self._job_waits = session.job_waits

    def _next_id(self) -> str:
        """Return a new id. The caller holds the batcher's lock."""
        return f"{self._prefix}{next(self._count)}"

    def _packed(self, payload: Any) -> Raw:
        """Encode a payload, with the trace context. Raises TypeError."""
        packed = packed_value(payload, "payload")
        return packed if self._tracer is None else wrap(self._tracer.traceparent(), packed)

    def _call(
        self, request: RequestType, item: Any, future: ReplyFuture[Any] | None = None
    ) -> ReplyFuture[Any]:
        """Make a call; `item`: of a batch, or the fields of a request. Raises ClientBusy."""
        self._wait_for_room()
        return self._call_at_once(request, item, future)

    def _wait_for_room(self) -> None:
        if self._batcher.open_batch is None:
            self._batcher.wait_for_room(self._seconds)

    def _call_at_once(
        self, request: RequestType, item: Any, future: ReplyFuture[Any] | None = None
    ) -> ReplyFuture[Any]:
        if future is None:
            future = ReplyFuture()
        self._batcher.add(request, item, future)
        return future


def packed_value(value: Any, what: str = "value") -> Raw:
    """Encode a value. Raises TypeError if MessagePack cannot hold it."""
    return _NOTHING if value is None else Raw(pack(value, what))
