"""LaterCalls: the calls of a client that return the future of their answer at once.

Each verb is declared here once. `Client` waits for these futures in the caller's thread,
`AsyncClient` in its event loop: their verbs are made of these, with the same arguments and
docstrings. Any thread may make a call.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast, get_args

from msgspec import Raw

from purgatory.core.keys import check_need, distinct_keys
from purgatory.service.client.calls import Keeping, RequestType
from purgatory.service.client.futures import ReplyFuture, SubmissionReceipt
from purgatory.service.client.io_thread import ClientIOThread
from purgatory.service.client.patience import Patience
from purgatory.service.client.session import Session, WorkerLink
from purgatory.service.client.trace_context import OperationTracer, wrap
from purgatory.service.encoding import pack
from purgatory.service.errors import OperationFailed, described
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
from timingwheel.lowlevel import check_count, to_ms

_NOTHING: Final = Raw(NOTHING)
#: The largest number that the protocol has.
MAX_NUMBER: Final = (1 << 63) - 1

_F = TypeVar("_F", bound=Callable[..., Any])


class _OperationFuture(Protocol):
    """A future that knows the id of its operation."""

    @property
    def op_id(self) -> str: ...


#: What names an operation: its id or its future.
OperationName: TypeAlias = str | _OperationFuture


class LaterCalls:
    """The calls of a client, to be sent by its I/O thread.

    Docstrings say what the answer is, which the future of a `..._later` call gets. All of them
    raise TypeError and ValueError for bad arguments, and Unavailable; the answer may be `Refused`.
    """

    def __init__(
        self,
        io_thread: ClientIOThread,
        session: Session,
        patience: Patience,
        tracer: OperationTracer | None,
        platform: Platform,
    ) -> None:
        self._io_thread = io_thread
        # Its lock also guards `_count`, and that an id is looked up and entered in one step.
        self._batcher = io_thread.batcher
        self._patience = patience
        self._tracer = tracer
        self._prefix = f"{platform.new_id()[:16]}-"
        self._count = itertools.count()
        #: For gateways.
        self.received = session.received
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
        """Have an operation wait at the server, on disk; answers its id and its state.

        Like `Client.defer`, but its outcome goes to `on_outcome` of the client that has this name
        then, or stays at the server; see `unread` and `query`.
        """
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
        watch_keys = distinct_keys(tuple([checked_text(key, "key") for key in keys]))
        need = check_need(need, len(watch_keys))
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
        """Have a worker of this client's name do a job in `delay`; answers with its receipt.

        The job is on disk then. It is done at least once. `unless`: keys; completing any of them
        before it is due ends the job, as `cancel` does. A job that the server has under `job_id`
        already is not added again. `kind` chooses the handler, which gets `payload`.
        """
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
        """Read jobs of this client's name that were given up after their last attempt.

        Those with numbers above `after`, as many as fit into a message: go on after the last one,
        until there are none. They stay where they are.
        """
        return self._call(ReadDead, (checked_number(after, "after"),))

    def retry_dead_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Have dead jobs tried again, from the first attempt; answers how many there were.

        `retry_dead_later` sends one message: a server refuses more than its `max_items` numbers.
        """
        return self._call(EndDead, (checked_numbers(numbers), False))

    def drop_dead_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Forget dead jobs; answers how many there were. Sent as `retry_dead` sends them."""
        return self._call(EndDead, (checked_numbers(numbers), True))

    def complete_later(
        self,
        key: str,
        value: Any = None,
        *,
        limit: int | None = None,
        hold: float | timedelta = 0.0,
    ) -> ReplyFuture[int]:
        """Complete a key for all operations at the server; answers how many that completed.

        `limit`: for at most so many operations, the longest waiting first; those that it neither
        completes nor brings nearer do not count. `hold`: for so many seconds the event also counts
        for operations that are submitted later; `limit` bounds both together. It replaces what is
        held for the key, without `hold`, too.

        The completions are on disk then, and what is held. `value` is anything that MessagePack can
        hold. If the connection is lost before the answer, the completion is sent again, and done
        once.
        """
        completion = Completion(
            checked_text(key, "key"), _NOTHING if value is None else Raw(pack(value))
        )
        if limit is not None:
            completion.limit = checked_number(limit, "limit", 1)
        if hold:
            completion.hold_ms = to_ms(hold)
        return self._call(Complete, completion)

    def fail_later(self, key: str, error: Exception | type[Exception]) -> ReplyFuture[int]:
        """Fail a key for all operations at the server; answers how many that ended.

        Their futures raise OperationFailed, with the name of the error's class and its text.
        Operations for which that key has counted go on. What is held for the key stays. Otherwise
        like `complete`.
        """
        return self._call(Fail, KeyFailure(checked_text(key, "key"), *error_texts(error)))

    def extend_later(
        self, operation: OperationName, timeout: float | timedelta
    ) -> ReplyFuture[bool]:
        """Have an operation's timeout count anew from now, by its future or its id.

        The operation keeps its place among those that wait. False if it has ended or is not known.
        That is on disk then. If the connection is lost before the answer, it is sent again, and
        done once.
        """
        extension = TimeoutExtension(op_id_of(operation), to_ms(timeout))
        self._patience.extend(extension.op_id, extension.timeout_ms)
        return self._call(Extend, extension)

    def cancel_later(self, operation: OperationName) -> ReplyFuture[bool]:
        """Cancel an operation, by its future or its id; False if it has ended or is not known."""
        return self._call(Cancel, op_id_of(operation))

    def query_later(self, operation: OperationName) -> ReplyFuture[OperationStatus]:
        """Read what the server knows of an operation, by its future or its id."""
        return self._call(Query, op_id_of(operation))

    def unread_later(self, after: int = 0) -> ReplyFuture[list[OutcomeMessage]]:
        """Read outcomes of this client's name that are not acknowledged, oldest first.

        Pages as `dead_jobs` does.
        """
        return self._call(Unread, (checked_number(after, "after"),))

    def acknowledge_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Acknowledge outcomes of this client's name, by number; answers how many were there.

        The server keeps them no longer, and no client gets them. Sent as `retry_dead` sends them.
        """
        return self._call(Acknowledge, (checked_numbers(numbers), True))

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
        """Read a page of `list`, which may be empty, and the `cursor` of the next.

        That is its `after`; None: there are no more.
        """
        page = checked_number(cursor, "cursor"), checked_number(limit, "limit", 1)
        wanted = {"kind": kind, "key": key, "client": client, "state": state}
        texts = [text and checked_text(text, name) for name, text in wanted.items()]
        return self._call(ReadOperations, (*page, *texts))

    def stats_later(self) -> ReplyFuture[dict[str, int | float]]:
        """Read the server's stats by name; see `ServerStats`."""
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

    def keep(self, lease: Lease) -> ReplyFuture[Keeping]:
        """Have a lease last longer."""
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
    if name is not None:
        checked_text(name, "name")


def checked_text(text: str, what: str) -> str:
    """Return a text as a plain `str` that UTF-8 can hold.

    Raises TypeError for anything but a text, and ValueError for lone surrogates.
    """
    if type(text) is str and text.isascii():
        return text
    if not isinstance(text, str):
        raise TypeError(f"{what} is {text!r}; expected a str")
    try:
        return str.encode(text).decode()  # not an instance of a subclass
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is {text!r}; expected a text that UTF-8 can hold") from error


def checked_number(number: object, what: str, least: int = 0) -> int:
    """Return a number as a plain int. Raises TypeError, and ValueError beyond 64 bits."""
    return check_count(what, number, least, MAX_NUMBER)


def checked_numbers(numbers: Iterable[int]) -> list[int]:
    """Return numbers of outcomes or jobs. Raises TypeError and ValueError."""
    return [checked_number(number, "number") for number in numbers]


def error_texts(error: object) -> tuple[str, str]:
    """Return the name of an error's class, and its text. Raises TypeError."""
    if isinstance(error, OperationFailed):  # as it came from a server
        return checked_text(error.error_type, "error_type"), checked_text(error.message, "message")
    if isinstance(error, type) and issubclass(error, Exception):
        return error.__name__, ""
    if not isinstance(error, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return described(error)


def op_id_of(operation: OperationName) -> str:
    """Return the id of an operation. Raises TypeError."""
    op_id = getattr(operation, "op_id", operation)
    if not isinstance(op_id, str):
        raise TypeError(f"operation is {operation!r}; expected its id or its future")
    return checked_text(op_id, "operation")


def described_by(call: Callable[..., ReplyFuture[Any]], made: _F) -> _F:
    """Give what was made of a `..._later` call its name, docstring and signature."""
    functools.update_wrapper(made, call)
    made.__name__ = made.__qualname__ = call.__name__.removesuffix("_later")
    signature = inspect.signature(call)
    (answer,) = get_args(signature.return_annotation)
    made.__signature__ = signature.replace(return_annotation=answer)  # type: ignore[attr-defined]
    return made
