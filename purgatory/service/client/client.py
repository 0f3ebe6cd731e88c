"""Client: delayed operations at a server in another process.

Any thread may call any method, with one exception: callbacks of the client's futures run in its I/O
thread, and must not call methods that wait for an answer, as that thread receives the answers.
"""

import builtins
import contextlib
import inspect
import itertools
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import zmq
from msgspec import Raw

from purgatory.core.future import PENDING
from purgatory.core.keys import check_need, distinct_keys
from purgatory.service.client.batcher import RequestType, in_messages
from purgatory.service.client.commands import CloseCommand, FlushCommand
from purgatory.service.client.futures import ReplyFuture, ServiceFuture, SubmissionReceipt
from purgatory.service.client.io_thread import ClientIOThread
from purgatory.service.client.job_calls import JobCalls
from purgatory.service.client.outcome_handler import OnOutcome
from purgatory.service.client.session import Session
from purgatory.service.client.trace_context import OperationTracer, wrap
from purgatory.service.errors import OperationFailed, RequestTimeout, Unavailable
from purgatory.service.job_messages import DeadJob, EndDead, ReadDead
from purgatory.service.protocol import (
    NOTHING,
    Acknowledge,
    Cancel,
    Complete,
    Completion,
    Extend,
    Fail,
    KeyFailure,
    Operations,
    OperationStatus,
    OutcomeMessage,
    Query,
    ReadOperations,
    Stats,
    Submission,
    Submit,
    TimeoutExtension,
    Unread,
    pack,
)
from timingwheel.lowlevel import to_ms

DEFAULT_ADDRESS: Final = "tcp://127.0.0.1:7411"

# Seconds that `close` waits for answers, at most, if it is not told.
CLOSE_TIMEOUT_S: Final = 5.0
# Seconds that `close` waits for the I/O thread beyond its timeout.
CLOSE_GRACE_S: Final = 2.0

_NOTHING: Final = Raw(NOTHING)

_T = TypeVar("_T")


class Client:
    """A connection to a server, made and kept up in the background.

    `name` is the owner of the operations: outcomes come to the client that has it (default: a
    unique one). `timeout` is how long methods wait for an answer, in seconds. `server_key`,
    `public_key` and `secret_key` are for a server that asks for CURVE.

    `on_outcome(outcome)` is called, in the I/O thread, with each outcome of that name that no
    future waits for (of operations from before a restart). By returning it acknowledges the
    outcome; if it returns a `concurrent.futures.Future`, the result of that does. If it raises, it
    is called again, up to ten times, after 0.2 s and then ever longer; after that the outcome stays
    at the server until the next connection. So an outcome can come more than once. Of several
    clients of a name, the one that connected last is called. Without `on_outcome` the outcomes stay
    at the server.

    `tracer`: makes a span for each operation, in the trace in which it was submitted; see
    `purgatory.service.tracing`. The context takes some 70 bytes of the operation's payload.

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
        tracer: OperationTracer | None = None,
    ) -> None:
        if not isinstance(address, str):
            raise TypeError(f"address is {address!r}; expected a str")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {name!r}; expected a str or None")
        if name == "":
            raise ValueError("name is empty; expected a text or None")
        if inspect.iscoroutinefunction(on_outcome):
            raise TypeError(
                f"on_outcome is {on_outcome!r}, which no loop awaits; use AsyncClient for that"
            )
        self.timeout: float = to_ms(timeout) / 1000
        self.address = address
        self.name: str = name or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._prefix = f"{uuid.uuid4().hex[:16]}-"
        self._count = itertools.count()
        # The unfinished operations, by id. Callers add entries and the I/O thread removes them;
        # both by single, atomic operations of a dict.
        self._futures: dict[str, ServiceFuture] = {}
        self._tracer = tracer
        self._session = Session(self.name, self._futures, on_outcome, tracer)
        configure = None
        if server_key is not None:
            configure = _CurveKeys(server_key, public_key, secret_key)
        try:
            self._io_thread = ClientIOThread(address, self._session, configure, f"{self.name}-io")
        except zmq.ZMQError as error:
            raise ValueError(f"address is {address!r}: {error.strerror}") from error
        # Its lock also guards `_count`, and that an id is looked up and entered in one step.
        self._batcher = self._io_thread.batcher
        #: For `Worker`.
        self.job_calls: JobCalls = JobCalls(self._call, self._session)

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

        The operation completes once `need` distinct keys have been completed, or expires `timeout`
        seconds after the server took it. The result is the value of the key or, with need > 1, a
        dict of keys and values. The future raises OperationExpired, OperationFailed,
        OperationCancelled, `Refused` when the server refused the operation, and Unavailable when
        the client was closed before.

        `op_id` is its id. An operation that the server has from this client under that id already
        is not submitted again; its end comes to this future. `payload` is kept with the operation.
        Raises TypeError and ValueError for bad arguments, and Unavailable.
        """
        submission = self._submission(keys, timeout, need, kind, op_id, payload)
        with self._batcher.lock:
            if op_id is None:
                submission.op_id = self._next_id()
            elif (known := self._futures.get(submission.op_id)) is not None:
                return known
            op_id = submission.op_id
            future = self._futures[op_id] = ServiceFuture(self, op_id)
            try:
                self._batcher.add(Submit, submission, future)
            except BaseException:
                self._futures.pop(op_id, None)
                raise
        return future

    def submit(
        self,
        *keys: str,
        timeout: float | timedelta = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        payload: Any = None,
    ) -> SubmissionReceipt:
        """Have an operation wait at the server, and do not wait for its end; it is on disk then.

        Like `defer`, but its outcome goes to `on_outcome` of the client that has this name then, or
        stays at the server; see `unread` and `query`. Raises what `defer` and its future raise, and
        RequestTimeout.
        """
        self._refuse_in_callback()
        return self._wait(
            self.submit_later(
                *keys, timeout=timeout, need=need, kind=kind, op_id=op_id, payload=payload
            )
        )

    def submit_later(
        self,
        *keys: str,
        timeout: float | timedelta = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        payload: Any = None,
    ) -> ReplyFuture[SubmissionReceipt]:
        """Like `submit`, but returns the future of its answer at once."""
        submission = self._submission(keys, timeout, need, kind, op_id, payload)
        future: ReplyFuture[SubmissionReceipt] = ReplyFuture()
        with self._batcher.lock:
            if op_id is None:
                submission.op_id = self._next_id()
            self._batcher.add(Submit, submission, future)
        return future

    def _submission(
        self,
        keys: tuple[str, ...],
        timeout: float | timedelta,
        need: int,
        kind: str,
        op_id: str | None,
        payload: Any,
    ) -> Submission:
        """Check and pack an operation; without an `op_id` it has none yet."""
        watch_keys = distinct_keys(tuple([_checked_text(key, "key") for key in keys]))
        check_need(need, len(watch_keys))
        texts = cast("tuple[str, ...]", watch_keys)
        timeout_ms = to_ms(timeout)
        kind = _checked_text(kind, "kind")
        checked_id = "" if op_id is None else _checked_text(op_id, "op_id")
        packed = self._packed(payload)
        if self._batcher.open_batch is None:
            self._apply_backpressure()
        return Submission(checked_id, texts, timeout_ms, need, kind, packed)

    def _next_id(self) -> str:
        """Return a new operation id. The caller holds the batcher's lock."""
        return f"{self._prefix}{next(self._count)}"

    def schedule(
        self,
        delay: float | timedelta,
        *,
        kind: str = "",
        payload: Any = None,
        job_id: str | None = None,
        unless: Iterable[str] = (),
    ) -> str:
        """Have a `Worker` of this client's name do a job in `delay` seconds; returns its id.

        The job is on disk then. It is done at least once. `unless`: keys; completing any of them
        before it is due ends the job, as `cancel` does. A job that the server has under `job_id`
        already is not added again. `kind` chooses the handler, which gets `payload`. Raises
        TypeError, ValueError, `Refused`, RequestTimeout and Unavailable.
        """
        self._refuse_in_callback()
        reply = self.schedule_later(delay, kind=kind, payload=payload, job_id=job_id, unless=unless)
        return self._wait(reply).op_id

    def schedule_later(
        self,
        delay: float | timedelta,
        *,
        kind: str = "",
        payload: Any = None,
        job_id: str | None = None,
        unless: Iterable[str] = (),
    ) -> ReplyFuture[SubmissionReceipt]:
        """Like `schedule`, but returns the future of its answer at once."""
        if isinstance(unless, str):
            raise TypeError(f"unless is {unless!r}; expected some keys")
        if job_id is None:
            with self._batcher.lock:
                job_id = self._next_id()
        job_id = _checked_text(job_id, "job_id")
        keys = tuple([_checked_text(key, "key") for key in unless]) or (job_id,)
        submission = Submission(
            job_id, keys, to_ms(delay), 0, _checked_text(kind, "kind"), self._packed(payload)
        )
        return self._call(Submit, submission)

    def _packed(self, payload: Any) -> Raw:
        """Encode a payload, with the context of the trace. Raises TypeError."""
        packed = _NOTHING if payload is None else Raw(pack(payload))
        return packed if self._tracer is None else wrap(self._tracer.traceparent(), packed)

    def dead_jobs(self, after: int = 0) -> builtins.list[DeadJob]:
        """Return jobs of this client's name that were given up after their last attempt.

        Those with numbers above `after`, as many as fit into a message: go on after the last one,
        until there are none. They stay where they are.
        """
        self._refuse_in_callback()
        return self._wait(self._call(ReadDead, after))

    def retry_dead(self, numbers: Iterable[int]) -> int:
        """Have dead jobs tried again, from the first attempt; returns how many there were."""
        return self._end_dead(numbers, drop=False)

    def drop_dead(self, numbers: Iterable[int]) -> int:
        """Forget dead jobs; returns how many there were."""
        return self._end_dead(numbers, drop=True)

    def _end_dead(self, numbers: Iterable[int], *, drop: bool) -> int:
        self._refuse_in_callback()
        replies = [self._call(EndDead, (some, drop)) for some in in_messages(numbers)]
        return sum(self._wait(reply) for reply in replies)

    def complete(
        self,
        key: str,
        value: Any = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> int:
        """Complete a key for all operations at the server; returns how many that completed.

        `limit`: for at most so many operations, the longest waiting first; those that it neither
        completes nor brings nearer do not count. `hold`: for so many seconds the event also counts
        for operations that are submitted later; `limit` bounds both together. It replaces what is
        held for the key, without `hold`, too.

        The completions are on disk then, and what is held. `value` is anything that MessagePack can
        hold. If the connection is lost before the answer, the completion is sent again, and done
        once. Raises TypeError, ValueError, `Refused`, RequestTimeout and Unavailable.
        """
        self._refuse_in_callback()
        return self._wait(self.complete_later(key, value, limit=limit, hold=hold))

    def complete_later(
        self,
        key: str,
        value: Any = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> ReplyFuture[int]:
        """Like `complete`, but returns the future of its answer at once."""
        completion = Completion(
            _checked_text(key, "key"), _NOTHING if value is None else Raw(pack(value))
        )
        if limit is not None:
            completion.limit = _checked_limit(limit)
        if hold:
            completion.hold_ms = to_ms(hold)
        return self._call(Complete, completion)

    def fail(self, key: str, error: Exception | type[Exception]) -> int:
        """Fail a key for all operations at the server; returns how many that ended.

        Their futures raise OperationFailed, with the name of the error's class and its text.
        Operations for which that key has counted go on. What is held for the key stays. Otherwise
        like `complete`.
        """
        self._refuse_in_callback()
        return self._wait(self.fail_later(key, error))

    def fail_later(self, key: str, error: Exception | type[Exception]) -> ReplyFuture[int]:
        """Like `fail`, but returns the future of its answer at once."""
        return self._call(Fail, KeyFailure(_checked_text(key, "key"), *_error_texts(error)))

    def extend(self, operation: str | ServiceFuture, timeout: float | timedelta) -> bool:
        """Have an operation's timeout count anew from now, by its future or its id.

        The operation keeps its place among those that wait. False if it has ended or is not known.
        That is on disk then. If the connection is lost before the answer, it is sent again, and
        done once. Raises TypeError, ValueError, `Refused`, RequestTimeout and Unavailable.
        """
        self._refuse_in_callback()
        return self._wait(self.extend_later(operation, timeout))

    def extend_later(
        self, operation: str | ServiceFuture, timeout: float | timedelta
    ) -> ReplyFuture[bool]:
        """Like `extend`, but returns the future of its answer at once."""
        return self._call(Extend, TimeoutExtension(_op_id(operation), to_ms(timeout)))

    def cancel(self, operation: str | ServiceFuture) -> bool:
        """Cancel an operation, by its future or its id; False if it has ended or is not known."""
        self._refuse_in_callback()
        return self._wait(self.cancel_later(operation))

    def cancel_later(self, operation: str | ServiceFuture) -> ReplyFuture[bool]:
        """Like `cancel`, but returns the future of its answer at once."""
        return self._call(Cancel, _op_id(operation))

    def query(self, operation: str | ServiceFuture) -> OperationStatus:
        """Return what the server knows of an operation, by its future or its id."""
        self._refuse_in_callback()
        return self._wait(self.query_later(operation))

    def query_later(self, operation: str | ServiceFuture) -> ReplyFuture[OperationStatus]:
        """Like `query`, but returns the future of its answer at once."""
        return self._call(Query, _op_id(operation))

    def unread(self, after: int = 0) -> builtins.list[OutcomeMessage]:
        """Return outcomes of this client's name that are not acknowledged, oldest first.

        Those with numbers above `after`, as many as fit into a message: go on after the last one,
        until there are none. They stay where they are.
        """
        self._refuse_in_callback()
        return self._wait(self.unread_later(after))

    def unread_later(self, after: int = 0) -> ReplyFuture[builtins.list[OutcomeMessage]]:
        """Like `unread`, but returns the future of its answer at once."""
        return self._call(Unread, after)

    def acknowledge(self, numbers: Iterable[int]) -> int:
        """Acknowledge outcomes of this client's name, by number; returns how many were there.

        The server keeps them no longer, and no client gets them. Many are sent in several messages.
        """
        self._refuse_in_callback()
        return sum(self._wait(self.acknowledge_later(some)) for some in in_messages(numbers))

    def acknowledge_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Like `acknowledge`, but returns the future of its answer at once.

        In one message: a server refuses more than its `max_items` numbers.
        """
        return self._call(Acknowledge, [*numbers])

    def list(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        cursor: int = 0,
        limit: int | None = None,
    ) -> Iterator[OperationStatus]:
        """Yield operations that the server knows, in order of submission, page by page.

        Those of all clients that this one may see, of a `kind`, waiting for a `key`, of a `client`,
        in a `state`; at most `limit`. It is no snapshot: what ends or is submitted meanwhile may be
        there or not. `cursor`: only those with greater numbers, see `list_page`.
        """
        left = sys.maxsize if limit is None else _checked_limit(limit)
        after: int | None = cursor
        while after is not None and left > 0:
            page = self.list_page(
                kind=kind, key=key, client=client, state=state, cursor=after, limit=min(left, 500)
            )
            yield from page.states
            left -= len(page.states)
            after = page.after

    def list_page(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        cursor: int = 0,
        limit: int = 100,
    ) -> Operations:
        """Return a page of `list`, which may be empty, and the `cursor` of the next.

        That is its `after`; None: there are no more.
        """
        self._refuse_in_callback()
        asked = (cursor, _checked_limit(limit), kind, key, client, state)
        page: Operations = self._wait(self._call(ReadOperations, asked))
        return page

    def stats(self) -> dict[str, int | float]:
        """Return the server's figures by name; see `ServerStats`."""
        self._refuse_in_callback()
        return self._wait(self.stats_later())

    def stats_later(self) -> ReplyFuture[dict[str, int | float]]:
        """Like `stats`, but returns the future of its answer at once."""
        return self._call(Stats, None)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all calls made before are answered: what was deferred is on disk then.

        Waits at most `timeout` seconds, by default the client's. Raises RequestTimeout and
        Unavailable.
        """
        self._refuse_in_callback()
        seconds = self.timeout if timeout is None else to_ms(timeout) / 1000
        if self._io_thread.lead(lambda: not self._session.busy, seconds):
            return
        answered: ReplyFuture[None] = ReplyFuture()
        self._io_thread.post(FlushCommand(lambda: answered.set_result(None)))
        self._wait(answered, timeout)

    def _call(self, request: RequestType, item: Any) -> ReplyFuture[Any]:
        if self._batcher.open_batch is None:
            self._apply_backpressure()
        future: ReplyFuture[Any] = ReplyFuture()
        self._batcher.add(request, item, future)
        return future

    def _apply_backpressure(self) -> None:
        """Block the caller while more than BACKLOG calls are unsent."""
        if self._batcher.has_room() or self._io_thread.turn.is_mine:
            return
        self._batcher.wait_for_room()

    def _refuse_in_callback(self) -> None:
        if self._io_thread.turn.is_mine:
            raise RuntimeError(
                "a callback of the client's futures cannot wait for an answer; use complete_later "
                "and its like, or another thread"
            )

    def _wait(self, future: ReplyFuture[_T], timeout: float | None = None) -> _T:
        seconds = self.timeout if timeout is None else to_ms(timeout) / 1000
        deadline = time.monotonic() + seconds
        self._io_thread.lead(lambda: future._state != PENDING, seconds)
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError as error:
            if future.done():  # the answer is a TimeoutError, as OperationExpired is
                raise
            trouble = (
                f" ({self._io_thread.connection_error})" if self._io_thread.connection_error else ""
            )
            raise RequestTimeout(
                f"no answer from {self.address} within {seconds:g} s{trouble}"
            ) from error

    def close(self, timeout: float | None = None) -> None:
        """End the connection once all calls are answered, or after `timeout` seconds.

        By default after five, or as soon as the server has been silent for as long as this client
        waits for an answer. Unresolved futures fail with Unavailable; their operations go on at the
        server. Idempotent.
        """
        if timeout is None:
            seconds, command = CLOSE_TIMEOUT_S, CloseCommand(CLOSE_TIMEOUT_S, self.timeout)
        else:
            seconds = to_ms(timeout) / 1000
            command = CloseCommand(seconds)
        with contextlib.suppress(Unavailable):  # closed already, or a forked child's copy
            self._io_thread.post(command)
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
    """Sets the CURVE keys of a socket."""

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
    """Return a text as a plain `str` that UTF-8 can hold.

    Raises TypeError for anything but a text, and UnicodeEncodeError for lone surrogates.
    """
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    text.encode()
    return str.__str__(text)  # not an instance of a subclass


def _checked_limit(limit: object) -> int:
    """Return a limit. Raises TypeError, and ValueError for less than 1."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit is {limit!r}; expected an int or None")
    if limit < 1:
        raise ValueError(f"limit is {limit!r}; expected at least 1")
    return limit


def _error_texts(error: object) -> tuple[str, str]:
    """Return the name of an error's class, and its text. Raises TypeError."""
    if isinstance(error, OperationFailed):  # as it came from a server
        return error.error_type, error.message
    if isinstance(error, type) and issubclass(error, Exception):
        return error.__name__, ""
    if not isinstance(error, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return type(error).__name__, str(error).encode("utf-8", "replace").decode()


def _op_id(operation: str | ServiceFuture) -> str:
    op_id = operation.op_id if isinstance(operation, ServiceFuture) else operation
    if not isinstance(op_id, str):
        raise TypeError(f"operation is {operation!r}; expected its id or its future")
    return _checked_text(op_id, "operation")
