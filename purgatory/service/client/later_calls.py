"""LaterCalls: the calls of a client that return the future of their answer.

The verbs of `Client` and `AsyncClient` wait for these futures, and have the same arguments and
docstrings. Any thread may make a call.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast, get_args

from purgatory.core.keys import check_need, distinct_keys
from purgatory.service.client.arguments import (
    Duration,
    OperationName,
    checked_choice,
    checked_number,
    checked_text,
    duration_ms,
    error_texts,
    filter_text,
    is_job,
    op_id_of,
    unique_ms_of,
)
from purgatory.service.client.call_sender import packed_value
from purgatory.service.client.calls import Keeping, RequestType
from purgatory.service.client.futures import ReplyFuture, SubmissionReceipt
from purgatory.service.client.io_thread import ClientIOThread
from purgatory.service.client.jobs.later_job_calls import LaterJobCalls
from purgatory.service.client.leases.lease_calls import LeaseCalls
from purgatory.service.client.patience import Patience
from purgatory.service.client.repeats.later_repeat_calls import LaterRepeatCalls
from purgatory.service.client.session import Session
from purgatory.service.client.trace_context import OperationTracer
from purgatory.service.client.worker_link import WorkerLink
from purgatory.service.errors import ServiceError
from purgatory.service.forked_child import ClientLocks
from purgatory.service.platform import Platform
from purgatory.service.protocol import (
    MADE_UP,
    OPERATION_ORDERS,
    OPERATION_STATES,
    Acknowledge,
    Cancel,
    Complete,
    Completion,
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
    ReadOperations,
    Stats,
    Submission,
    SubmissionOptions,
    Submit,
    TimeoutExtension,
    Unread,
    Work,
)

_F = TypeVar("_F", bound=Callable[..., Any])


class LaterCalls(LaterJobCalls, LaterRepeatCalls):
    """The calls of a client.

    Docstrings name the answer that the future gets. All calls raise TypeError, ValueError and
    Unavailable; the answer may be `Refused`. For the order of calls see `Client.defer`.
    """

    def __init__(
        self,
        io_thread: ClientIOThread,
        session: Session,
        patience: Patience,
        tracer: OperationTracer | None,
        platform: Platform,
    ) -> None:
        super().__init__(io_thread, session, patience.seconds, tracer, platform)
        self._patience = patience
        self.received = session.received
        # These do not wait for room: leases would lapse meanwhile.
        call = self._call_at_once
        self.job_calls: JobCalls = JobCalls(call, session, io_thread.wake)
        self.lease_calls: LeaseCalls = LeaseCalls(call, platform, session.name)
        session.on_lease_ready = self.lease_calls.on_ready
        self._locks = ClientLocks(
            io_thread.batcher, io_thread.turn, session.job_waits, self.lease_calls.keeper
        )

    def submit_later(
        self,
        *keys: str,
        timeout: Duration = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        unique_for: Duration | None = None,
        payload: Any = None,
    ) -> ReplyFuture[SubmissionReceipt]:
        """Have an operation wait at the server, on disk; answers its id and state.

        Like `Client.defer`, but the outcome goes to `on_outcome` of a client with this name, or
        stays at the server; see `unread` and `query`.
        """
        submission = self._submission(keys, timeout, need, kind, op_id, unique_for, payload)
        future: ReplyFuture[SubmissionReceipt] = ReplyFuture()
        with self._batcher.lock:
            if op_id is None:
                submission.op_id = self._next_id()
            self._batcher.add(Submit, submission, future)
        return future

    def _submission(
        self,
        keys: tuple[str, ...],
        timeout: Duration,
        need: int,
        kind: str,
        op_id: str | None,
        unique_for: Duration | None,
        payload: Any,
    ) -> Submission:
        texts = _watch_keys(keys)
        need = check_need(need, len(texts))
        timeout_ms = duration_ms(timeout, "timeout")
        kind = checked_text(kind, "kind")
        checked_id = "" if op_id is None else checked_text(op_id, "op_id")
        unique_ms = unique_ms_of(unique_for, op_id)
        options = None if unique_ms == MADE_UP else SubmissionOptions(unique_ms)
        packed = self._packed(payload)
        self._wait_for_room()
        return Submission(checked_id, texts, timeout_ms, need, kind, packed, options)

    def complete_later(
        self,
        key: str,
        value: Any = None,
        *,
        limit: int | None = None,
        hold: Duration = 0.0,
    ) -> ReplyFuture[int]:
        """Complete a key for all operations at the server; answers how many completed.

        `value`: anything that MessagePack can hold. `limit`: for at most so many operations, the
        longest waiting first; unaffected operations do not count. `hold`: for so many seconds the
        event also counts for operations submitted later; `limit` bounds both together. A held event
        of the key is replaced, even without `hold`. With the answer all is on disk. After a lost
        connection the client retries; the server does it once.
        """
        completion = Completion(checked_text(key, "key"), packed_value(value))
        if limit is not None:
            completion.limit = checked_number(limit, "limit", 1)
        if type(hold) is not float or hold:  # not the default
            completion.hold_ms = duration_ms(hold, "hold")
        return self._call(Complete, completion)

    def fail_later(self, key: str, error: Exception | type[Exception]) -> ReplyFuture[int]:
        """Fail a key for all operations at the server; answers how many ended.

        Their futures raise OperationFailed, with the name of the error's class and its text. An
        operation for which the key has counted goes on. A held event of the key stays. Otherwise
        like `complete`.
        """
        return self._call(Fail, KeyFailure(checked_text(key, "key"), *error_texts(error)))

    def extend_later(self, operation: OperationName, timeout: Duration) -> ReplyFuture[bool]:
        """Have an operation's timeout count anew from now, by future or id.

        The operation keeps its place in the key's order. False if ended or unknown. With the answer
        it is on disk. Idempotent. For the handle or the status of a job: `reschedule_job`.
        """
        timeout_ms = duration_ms(timeout, "timeout")
        if is_job(operation):
            return self.reschedule_job_later(operation, timeout)
        extension = TimeoutExtension(op_id_of(operation), timeout_ms)
        self._patience.extend(extension.op_id, extension.timeout_ms)
        return self._call(Extend, extension)

    def cancel_later(self, operation: OperationName) -> ReplyFuture[bool]:
        """Cancel an operation, by future or id; False if ended or unknown.

        For the handle or the status of a job: `cancel_job`.
        """
        if is_job(operation):
            return self.cancel_job_later(operation)
        return self._call(Cancel, op_id_of(operation))

    def query_later(self, operation: OperationName) -> ReplyFuture[OperationStatus]:
        """Read the state of an operation at the server, by future or id."""
        return self._call(Query, op_id_of(operation))

    def unread_later(self, after: int = 0) -> ReplyFuture[list[OutcomeMessage]]:
        """Read unacknowledged outcomes of this client's name, oldest first, above number `after`.

        As many as fit into a message: go on after the last number until none comes.
        """
        return self._call(Unread, (checked_number(after, "after"),))

    def acknowledge_later(self, numbers: Iterable[int]) -> ReplyFuture[int]:
        """Acknowledge outcomes of this client's name, by number; answers how many there were.

        The server sends them no more. At most its `max_items` numbers: one message.
        """
        checked = [checked_number(number, "number") for number in numbers]
        return self._call(Acknowledge, (checked, True))

    def list_page_later(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        order: str = "oldest",
        with_jobs: bool = True,
        cursor: int = 0,
        limit: int = 100,
    ) -> ReplyFuture[Operations]:
        """Read a page of `list`, which may be empty.

        `cursor`: the `after` of the page before; 0: the first page. `after` is None on the last.
        """
        wanted = check_operation_filters(
            kind=kind,
            key=key,
            client=client,
            state=state,
            order=order,
            with_jobs=with_jobs,
            cursor=cursor,
        )
        return self._call(
            ReadOperations,
            (wanted.pop("cursor"), checked_number(limit, "limit", 1), *wanted.values()),
        )

    def stats_later(self) -> ReplyFuture[dict[str, int | float]]:
        """Read the server's stats by name; see `ServerStats`."""
        return self._call(Stats, ())


class JobCalls:
    """The calls of a worker; `wake` has the I/O thread send."""

    def __init__(
        self,
        call: Callable[[RequestType, Any, ReplyFuture[Any] | None], ReplyFuture[Any]],
        session: Session,
        wake: Callable[[], None],
    ) -> None:
        self._call = call
        self._session = session
        self._wake = wake

    @property
    def max_result_bytes(self) -> int | None:
        """See `Session.max_result_bytes`."""
        return self._session.max_result_bytes

    @property
    def failure(self) -> ServiceError | None:
        """See `Session.failure`."""
        return self._session.failure

    def begin(self, leases: list[Lease]) -> None:
        """Tell the server of begun handlers; no answer."""
        self._session.begun.extend(leases)
        self._wake()

    def ask(self, link: WorkerLink) -> ReplyFuture[None]:
        """Ask for jobs, on this and all later connections."""
        self._session.worker = link
        return self._call(Work, link.asks, None)

    def keep(self, lease: Lease, reply: ReplyFuture[Keeping] | None = None) -> ReplyFuture[Keeping]:
        """Have a lease last longer; `reply` gets the answer (default: a new future)."""
        return self._call(Keep, lease, reply)

    def finish(self, end: LeaseEnd, reply: ReplyFuture[bool] | None = None) -> ReplyFuture[bool]:
        """End a lease; False: it had ended."""
        return self._call(Finish, end, reply)


def check_operation_filters(
    *,
    kind: str | None = None,
    key: str | None = None,
    client: str | None = None,
    state: str | None = None,
    order: str = "oldest",
    with_jobs: bool = True,
    cursor: int = 0,
) -> dict[str, Any]:
    """Return the arguments of `list`, but for `limit`."""
    given = {"kind": kind, "key": key, "client": client, "state": state}
    wanted: dict[str, Any] = {name: filter_text(text, name) for name, text in given.items()}
    if state is not None:
        checked_choice(state, "state", OPERATION_STATES)
    wanted["order"] = checked_choice(order, "order", OPERATION_ORDERS)
    if not isinstance(with_jobs, bool):
        raise TypeError(f"with_jobs is {with_jobs!r}; expected a bool")
    return wanted | {"with_jobs": with_jobs, "cursor": checked_number(cursor, "cursor")}


def _watch_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    if len(keys) == 1 and type(key := keys[0]) is str and key.isascii():  # mostly
        return keys
    given = tuple([checked_text(key, "key") for key in keys])
    return cast("tuple[str, ...]", distinct_keys(given))


def described_by(call: Callable[..., ReplyFuture[Any]], made: _F, returns: Any = None) -> _F:
    """Give a verb the name, docstring and signature of its call.

    `returns`: the return type (default: the answer).
    """
    functools.update_wrapper(made, call)
    made.__name__ = made.__qualname__ = call.__name__.removesuffix("_later")
    signature = inspect.signature(call)
    (answer,) = get_args(signature.return_annotation)
    made.__signature__ = signature.replace(return_annotation=returns or answer)  # type: ignore[attr-defined]
    return made
