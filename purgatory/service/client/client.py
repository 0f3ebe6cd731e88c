"""Client: delayed operations at a server in another process.

All methods may be called from any thread, save that those which wait for an answer may not be
called from callbacks of its futures: these run in the thread that the answer comes through.
"""

import contextlib
import itertools
import os
import socket
import threading
import time
import uuid
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, cast

import zmq
from msgspec import Raw

from purgatory.core.keys import check_need, distinct_keys
from purgatory.service.client.batcher import CallBatcher, RequestType
from purgatory.service.client.futures import CloseCommand, FlushCommand, ReplyFuture, ServiceFuture
from purgatory.service.client.io_thread import ClientIOThread
from purgatory.service.client.session import OnOutcome, Session
from purgatory.service.errors import RequestTimeout, Unavailable
from purgatory.service.protocol import (
    NOTHING,
    Cancel,
    Complete,
    Completion,
    OperationState,
    Query,
    Stats,
    Submission,
    Submit,
    pack,
)
from timingwheel.lowlevel import to_ms

DEFAULT_ADDRESS: Final = "tcp://127.0.0.1:7411"

# Calls not sent yet, from which on the caller has to wait: he is faster than the server.
BACKLOG: Final = 50_000
# Seconds between two looks whether that is over.
BACKLOG_PAUSE: Final = 0.002
# Seconds that `close` grants the thread to end once its time is over.
CLOSE_GRACE_S: Final = 2.0

_NOTHING: Final = Raw(NOTHING)


class Client:
    """A connection to a server, made and kept up in the background.

    ``name``: whose operations these are; outcomes come to whoever has it. Default: one of its own.
    ``timeout``: seconds that methods wait for an answer. ``server_key``, ``public_key``,
    ``secret_key``: for a server that asks for CURVE. ``on_outcome(outcome)``: told, in the
    client's own thread, of outcomes of that name that no future waits for (from before a restart);
    it acknowledges them by returning. Without it they stay at the server.

    Raises TypeError and ValueError for bad arguments. Use it as a context manager, or `close` it.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        name: str | None = None,
        timeout: float = 30.0,
        server_key: str | bytes | None = None,
        public_key: str | bytes | None = None,
        secret_key: str | bytes | None = None,
        on_outcome: OnOutcome | None = None,
    ) -> None:
        if not isinstance(address, str):
            raise TypeError(f"address is {address!r}; expected a str")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {name!r}; expected a str or None")
        if name == "":
            raise ValueError("name is empty; expected a text or None")
        self.timeout = to_ms(timeout) / 1000
        self.address = address
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._prefix = f"{uuid.uuid4().hex[:16]}-"
        self._count = itertools.count()
        # op id -> future of those not ended. Entered by callers, taken out by the link's thread:
        # single steps of a dict, which is all that either does.
        self._futures: dict[str, ServiceFuture] = {}
        self._session = Session(self.name, self._futures, on_outcome)
        configure = None
        if server_key is not None:
            configure = _CurveKeys(server_key, public_key, secret_key)
        try:
            self._io_thread = ClientIOThread(address, self._session, configure, f"{self.name}-io")
        except zmq.ZMQError as error:
            raise ValueError(f"address is {address!r}: {error.strerror}") from error
        # Its lock guards _count, too, and the look at _futures before an entry.
        self._batcher = CallBatcher(self._io_thread.post, self._io_thread.is_closed)

    def defer(
        self,
        *keys: str,
        timeout: float | timedelta = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        payload: Any = None,
    ) -> ServiceFuture:
        """Have an operation wait at the server; returns the future of its end, at once.

        It completes once ``need`` distinct keys have been completed, or expires ``timeout`` seconds
        after the server took it. The result is the value of the key or, with need > 1, a dict key
        -> value. Raises, from the future: OperationExpired, OperationCancelled, what the server
        refused (`Refused`), and Unavailable when the client was closed before. ``op_id``: its id;
        one that the server knows from this client already is not submitted again, and its end comes
        to this future. ``payload``: kept with the operation. Raises TypeError and ValueError for
        bad arguments, Unavailable.
        """
        watch_keys = distinct_keys(tuple([_checked_text(key, "key") for key in keys]))
        check_need(need, len(watch_keys))
        texts = cast("tuple[str, ...]", watch_keys)
        timeout_ms = to_ms(timeout)
        kind = _checked_text(kind, "kind")
        if op_id is not None:
            op_id = _checked_text(op_id, "op_id")
        packed = _NOTHING if payload is None else Raw(pack(payload))
        if self._batcher.open_batch is None:
            self._apply_backpressure()
        with self._batcher.lock:
            if op_id is None:
                op_id = f"{self._prefix}{next(self._count)}"
            elif (known := self._futures.get(op_id)) is not None:
                return known
            submission = Submission(op_id, texts, timeout_ms, need, kind, packed)
            future = self._futures[op_id] = ServiceFuture(self, op_id)
            try:
                self._batcher.add(Submit, submission, future)
            except BaseException:
                self._futures.pop(op_id, None)
                raise
        return future

    def complete(self, key: str, value: Any = None) -> int:
        """Complete a key for all operations at the server; how many that completed, and on disk.

        ``value``: what MessagePack can hold. If the connection is lost before the answer, it is
        sent again. Raises TypeError, `Refused`, RequestTimeout, Unavailable.
        """
        self._refuse_in_callback()
        count: int = self._wait(self.complete_later(key, value))
        return count

    def complete_later(self, key: str, value: Any = None) -> ReplyFuture:
        """Like `complete`, but returns the future of its answer at once."""
        completion = Completion(
            _checked_text(key, "key"), _NOTHING if value is None else Raw(pack(value))
        )
        return self._call(Complete, completion)

    def cancel(self, operation: str | ServiceFuture) -> bool:
        """Cancel an operation, by its future or its id; False if it has ended or is not known."""
        self._refuse_in_callback()
        done: bool = self._wait(self.cancel_later(operation))
        return done

    def cancel_later(self, operation: str | ServiceFuture) -> ReplyFuture:
        """Like `cancel`, but returns the future of its answer at once."""
        return self._call(Cancel, _op_id(operation))

    def query(self, operation: str | ServiceFuture) -> OperationState:
        """What the server knows of an operation, by its future or its id."""
        self._refuse_in_callback()
        state: OperationState = self._wait(self.query_later(operation))
        return state

    def query_later(self, operation: str | ServiceFuture) -> ReplyFuture:
        """Like `query`, but returns the future of its answer at once."""
        return self._call(Query, _op_id(operation))

    def stats(self) -> dict[str, int | float]:
        """The server's figures, by name; see `ServerStats`."""
        self._refuse_in_callback()
        figures: dict[str, int | float] = self._wait(self.stats_later())
        return figures

    def stats_later(self) -> ReplyFuture:
        """Like `stats`, but returns the future of its answer at once."""
        return self._call(Stats, None)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all calls made before are answered: what was deferred is on disk.

        ``timeout`` seconds, default the client's. Raises RequestTimeout, Unavailable.
        """
        self._refuse_in_callback()
        answered: ReplyFuture = ReplyFuture()
        self._io_thread.post(FlushCommand(lambda: answered.set_result(None)))
        self._wait(answered, timeout)

    def _call(self, request: RequestType, item: Any) -> ReplyFuture:
        if self._batcher.open_batch is None:
            self._apply_backpressure()
        future = ReplyFuture()
        self._batcher.add(request, item, future)
        return future

    def _apply_backpressure(self) -> None:
        """Have a caller wait who is faster than the server."""
        while (
            self._batcher.calls_added - self._session.finished_calls > BACKLOG
            and not self._io_thread.is_closed()
        ):
            if threading.current_thread() is self._io_thread.thread:
                return
            time.sleep(BACKLOG_PAUSE)

    def _refuse_in_callback(self) -> None:
        if threading.current_thread() is self._io_thread.thread:
            raise RuntimeError(
                "a callback of the client's futures cannot wait for an answer; use complete_later "
                "and its like, or another thread"
            )

    def _wait(self, future: ReplyFuture, timeout: float | None = None) -> Any:
        seconds = self.timeout if timeout is None else to_ms(timeout) / 1000
        try:
            return future.result(seconds)
        except TimeoutError as error:
            if future.done():  # it is the answer
                raise
            trouble = (
                f" ({self._io_thread.connection_error})" if self._io_thread.connection_error else ""
            )
            raise RequestTimeout(
                f"no answer from {self.address} within {seconds:g} s{trouble}"
            ) from error

    def close(self, timeout: float = 5.0) -> None:
        """End the connection, once all calls are answered or ``timeout`` seconds are over.

        Futures that wait fail with Unavailable; their operations go on at the server. May be
        repeated.
        """
        seconds = to_ms(timeout) / 1000
        with contextlib.suppress(Unavailable):  # it ends already, or is a forked child's copy
            self._io_thread.post(CloseCommand(seconds))
        if threading.current_thread() is not self._io_thread.thread:
            self._io_thread.thread.join(seconds + CLOSE_GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client {self.name!r} of {self.address}, {len(self._futures)} waiting>"


class _CurveKeys:
    """Sets a socket's keys for CURVE."""

    def __init__(
        self,
        server_key: str | bytes,
        public_key: str | bytes | None,
        secret_key: str | bytes | None,
    ) -> None:
        if public_key is None or secret_key is None:
            raise ValueError("server_key needs public_key and secret_key, too")
        self._keys = [
            key.encode("ascii") if isinstance(key, str) else key
            for key in (server_key, public_key, secret_key)
        ]

    def __call__(self, socket: "zmq.Socket[bytes]") -> None:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = self._keys


def _checked_text(text: str, what: str) -> str:
    """A text that can be sent. TypeError for what is none, UnicodeEncodeError for surrogates."""
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    text.encode()
    return str.__str__(text)  # of a subclass, too


def _op_id(operation: str | ServiceFuture) -> str:
    op_id = operation.op_id if isinstance(operation, ServiceFuture) else operation
    if not isinstance(op_id, str):
        raise TypeError(f"operation is {operation!r}; expected its id or its future")
    return _checked_text(op_id, "operation")
