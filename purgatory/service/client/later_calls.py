"""LaterCalls: the calls of a client that return the future of their answer at once.

`Client` waits for these futures in the caller's thread, `AsyncClient` in its event loop. Any thread
may make them.
"""

import itertools
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, cast

from msgspec import Raw

from purgatory.core.keys import check_need, distinct_keys
from purgatory.service.client.calls import RequestType
from purgatory.service.client.futures import ReplyFuture, ServiceFuture, SubmissionReceipt
from purgatory.service.client.io_thread import ClientIOThread
from purgatory.service.client.session import Session, WorkerLink
from purgatory.service.client.trace_context import OperationTracer, wrap
from purgatory.service.encoding import pack
from purgatory.service.errors import OperationFailed
from purgatory.service.platform import Platform
from purgatory.service.protocol import (
    NOTHING,
    Acknowledge,
    Cancel,
    Complete,
    Completion,
    DeadJob,
    EndDead,
    Extend,
    Fail,
    Finish,
    Keep,
    KeyFailure,
    Lease,
    LeaseEnd,
    Operations,
    OperationStatus,
    OutcomeMessage,
    Query,
    ReadDead,
    ReadOperations,
    Stats,
    Submission,
    Submit,
    TimeoutExtension,
    Unread,
    Work,
)
from timingwheel.lowlevel import to_ms

_NOTHING: Final = Raw(NOTHING)


class LaterCalls:
    """The calls of a client, to be sent by its I/O thread."""

    def __init__(
        self,
        io_thread: ClientIOThread,
        session: Session,
        tracer: OperationTracer | None,
        platform: Platform,
    ) -> None:
        self._io_thread = io_thread
        # Its lock also guards `_count`, and that an id is looked up and entered in one step.
        self._batcher = io_thread.batcher
        self._tracer = tracer
        self._prefix = f"{platform.new_id()[:16]}-"
        self._count = itertools.count()
        #: For workers.
        self.job_calls: JobCalls = JobCalls(self._call, session)

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
        return self._submit(submission, needs_id=op_id is None)

    def _submit(self, submission: Submission, *, needs_id: bool) -> ReplyFuture[SubmissionReceipt]:
        future: ReplyFuture[SubmissionReceipt] = ReplyFuture()
        with self._batcher.lock:
            if needs_id:
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
        watch_keys = distinct_keys(tuple([checked_text(key, "key") for key in keys]))
        check_need(need, len(watch_keys))
        texts = cast("tuple[str, ...]", watch_keys)
        timeout_ms = to_ms(timeout)
        kind = checked_text(kind, "kind")
        checked_id = "" if op_id is None else checked_text(op_id, "op_id")
        packed = self._packed(payload)
        if self._batcher.open_batch is None:
            self._batcher.wait_for_room()
        return Submission(checked_id, texts, timeout_ms, need, kind, packed)

    def _next_id(self) -> str:
        """Return a new operation id. The caller holds the batcher's lock."""
        return f"{self._prefix}{next(self._count)}"

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
        job_id = checked_text(job_id, "job_id")
        keys = tuple([checked_text(key, "key") for key in unless]) or (job_id,)
        submission = Submission(
            job_id, keys, to_ms(delay), 0, checked_text(kind, "kind"), self._packed(payload)
        )
        return self._call(Submit, submission)

    def _packed(self, payload: Any) -> Raw:
        """Encode a payload, with the context of the trace. Raises TypeError."""
        packed = _NOTHING if payload is None else Raw(pack(payload))
        return packed if self._tracer is None else wrap(self._tracer.traceparent(), packed)

    def dead_jobs_later(self, after: int = 0) -> ReplyFuture[list[DeadJob]]:
        """Like `dead_jobs`, but returns the future of its answer at once."""
        return self._call(ReadDead, (after,))

    def retry_dead_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Like `retry_dead`, but returns the future of its answer at once.

        In one message: a server refuses more than its `max_items` numbers.
        """
        return self._call(EndDead, ([*numbers], False))

    def drop_dead_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Like `drop_dead`, but returns the future of its answer at once, as `retry_dead_later`."""
        return self._call(EndDead, ([*numbers], True))

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
            checked_text(key, "key"), _NOTHING if value is None else Raw(pack(value))
        )
        if limit is not None:
            completion.limit = checked_limit(limit)
        if hold:
            completion.hold_ms = to_ms(hold)
        return self._call(Complete, completion)

    def fail_later(self, key: str, error: Exception | type[Exception]) -> ReplyFuture[int]:
        """Like `fail`, but returns the future of its answer at once."""
        return self._call(Fail, KeyFailure(checked_text(key, "key"), *error_texts(error)))

    def extend_later(
        self, operation: str | ServiceFuture, timeout: float | timedelta
    ) -> ReplyFuture[bool]:
        """Like `extend`, but returns the future of its answer at once."""
        return self._call(Extend, TimeoutExtension(op_id_of(operation), to_ms(timeout)))

    def cancel_later(self, operation: str | ServiceFuture) -> ReplyFuture[bool]:
        """Like `cancel`, but returns the future of its answer at once."""
        return self._call(Cancel, op_id_of(operation))

    def query_later(self, operation: str | ServiceFuture) -> ReplyFuture[OperationStatus]:
        """Like `query`, but returns the future of its answer at once."""
        return self._call(Query, op_id_of(operation))

    def unread_later(self, after: int = 0) -> ReplyFuture[list[OutcomeMessage]]:
        """Like `unread`, but returns the future of its answer at once."""
        return self._call(Unread, (after,))

    def acknowledge_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Like `acknowledge`, but returns the future of its answer at once.

        In one message: a server refuses more than its `max_items` numbers.
        """
        return self._call(Acknowledge, ([*numbers], True))

    def list_page_later(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        cursor: int = 0,
        limit: int = 100,
    ) -> ReplyFuture[Operations]:
        """Like `list_page`, but returns the future of its answer at once."""
        return self._list(cursor, limit, kind, key, client, state)

    def _list(self, after: int, limit: int, *filters: str | None) -> ReplyFuture[Operations]:
        """Read a page; `filters`: kind, key, client, state."""
        return self._call(ReadOperations, (after, checked_limit(limit), *filters))

    def stats_later(self) -> ReplyFuture[dict[str, int | float]]:
        """Like `stats`, but returns the future of its answer at once."""
        return self._call(Stats, ())

    def _call(self, request: RequestType, item: Any) -> ReplyFuture[Any]:
        future: ReplyFuture[Any] = ReplyFuture()
        if self._batcher.open_batch is None:
            self._batcher.wait_for_room()
        self._batcher.add(request, item, future)
        return future


class JobCalls:
    """Calls of a worker; `call` makes one, `session` is its client's."""

    def __init__(self, call: Callable[[RequestType, Any], ReplyFuture[Any]], session: Session):
        self._call = call
        self._session = session

    def ask(self, link: WorkerLink) -> ReplyFuture[None]:
        """Ask for jobs, on this connection and on those to come."""
        self._session.worker = link
        return self._call(Work, link.asks)

    def keep(self, lease: Lease) -> ReplyFuture[bool]:
        """Have a lease last longer; False: it has ended."""
        return self._call(Keep, lease)

    def finish(self, end: LeaseEnd) -> ReplyFuture[bool]:
        """End a lease; False: it had ended."""
        return self._call(Finish, end)


def check_name(name: object) -> None:
    """Raise TypeError or ValueError unless it can be the name of a client, or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name is {name!r}; expected a str or None")
    if name == "":
        raise ValueError("name is empty; expected a text or None")


def checked_text(text: str, what: str) -> str:
    """Return a text as a plain `str` that UTF-8 can hold.

    Raises TypeError for anything but a text, and UnicodeEncodeError for lone surrogates.
    """
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    text.encode()
    return str.__str__(text)  # not an instance of a subclass


def checked_limit(limit: object) -> int:
    """Return a limit. Raises TypeError, and ValueError for less than 1."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit is {limit!r}; expected an int or None")
    if limit < 1:
        raise ValueError(f"limit is {limit!r}; expected at least 1")
    return limit


def error_texts(error: object) -> tuple[str, str]:
    """Return the name of an error's class, and its text. Raises TypeError."""
    if isinstance(error, OperationFailed):  # as it came from a server
        return error.error_type, error.message
    if isinstance(error, type) and issubclass(error, Exception):
        return error.__name__, ""
    if not isinstance(error, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return type(error).__name__, str(error).encode("utf-8", "replace").decode()


def op_id_of(operation: str | ServiceFuture) -> str:
    """Return the id of an operation. Raises TypeError."""
    op_id = operation.op_id if isinstance(operation, ServiceFuture) else operation
    if not isinstance(op_id, str):
        raise TypeError(f"operation is {operation!r}; expected its id or its future")
    return checked_text(op_id, "operation")
