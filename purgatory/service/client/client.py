"""Client: delayed operations at a server in another process.

Any thread may call any method. Callbacks of the client's futures run in the I/O thread, and must
not wait for an answer.

Past 400 lines: the public interface and its promises.
"""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import zmq

from _purgatory_cpython import at_exit
from purgatory.service.client.arguments import (
    Duration,
    JobName,
    check_methods,
    checked_filled,
    checked_number,
    checked_seconds,
)
from purgatory.service.client.functions import check_function
from purgatory.service.client.futures import ReplyFuture, ServiceFuture
from purgatory.service.client.io_thread import ClientIOThread, CloseCommand, FlushCommand
from purgatory.service.client.jobs.job_waits import (
    JobEndFuture,
    ended_status,
    result_of,
    still_pending,
)
from purgatory.service.client.jobs.later_job_calls import check_filters, job_id_of
from purgatory.service.client.later_calls import LaterCalls, check_operation_filters, described_by
from purgatory.service.client.leases.lease_handle import LeaseHandle
from purgatory.service.client.leases.lease_owner import LeaseTerms
from purgatory.service.client.outcomes import OnOutcome
from purgatory.service.client.pages import items_of
from purgatory.service.client.patience import Patience
from purgatory.service.client.repeats.repeat_handle import RepeatHandle
from purgatory.service.client.route.addresses import parse_addresses
from purgatory.service.client.route.socket_options import LOST_AFTER_S, socket_options
from purgatory.service.client.session import Session
from purgatory.service.client.trace_context import OperationTracer
from purgatory.service.errors import BadAddress, RequestTimeout, Unavailable
from purgatory.service.job_messages import JobStatus, RepeatState
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.portions import in_portions
from purgatory.service.protocol import OperationStatus, Submit

DEFAULT_ADDRESS: Final = "tcp://127.0.0.1:7411"

# By default `close` waits so long for answers.
CLOSE_TIMEOUT_S: Final = 5.0
# Then `close` waits so long for the I/O thread.
CLOSE_GRACE_S: Final = 2.0
_P = ParamSpec("_P")
_T = TypeVar("_T")


def answered(
    call: Callable[Concatenate[LaterCalls, _P], ReplyFuture[_T]],
) -> "Callable[Concatenate[Client, _P], _T]":
    """Make the verb that waits for the answer to a call."""

    def wait(client: "Client", /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        client._refuse_in_callback()
        return client._wait(call(client, *arguments, **options))

    return described_by(call, wait)


def with_handle(
    call: Callable[Concatenate[LaterCalls, _P], ReplyFuture[RepeatState]],
) -> "Callable[Concatenate[Client, _P], RepeatHandle]":
    """Like `answered`, for a repeat's handle."""

    def wait(client: "Client", /, *arguments: _P.args, **options: _P.kwargs) -> RepeatHandle:
        client._refuse_in_callback()
        return RepeatHandle(client, client._wait(call(client, *arguments, **options)))

    return described_by(call, wait, RepeatHandle)


def check_helpers(tracer: OperationTracer | None, platform: Platform) -> None:
    """Check options of a `Client`. Raises TypeError."""
    check_methods(tracer, "tracer", ("traceparent", "ended"))
    if not isinstance(platform, Platform):
        raise TypeError(f"platform is {platform!r}; expected a Platform")


class Client(LaterCalls):
    """A connection to a server, made and kept up in the background.

    `address`: of one or several servers: "tcp://a:7411,tcp://b:7411". The client finds the active
    server, also after a takeover, and retries unanswered requests, which are idempotent.

    `name` owns the operations: their outcomes go to clients of this name (default: a unique name).
    `timeout`: seconds that methods wait for an answer. After `lost_after` seconds without a sign
    from the server's host the client reconnects. `server_key`, `public_key` and `secret_key` are
    for servers with CURVE; all servers of the addresses have the same key.

    The I/O thread calls `on_outcome(outcome)` with each outcome of the client's name for which no
    future waits, as after a restart. Returning acknowledges the outcome; if `on_outcome` returns a
    `concurrent.futures.Future`, its result acknowledges. If `on_outcome` raises, the client calls
    again, ten times in all, after 0.2 s and then ever longer; then the outcome stays at the server
    until the next connection. So an outcome can come more than once. Of several clients with one
    name and an `on_outcome`, only the last connected is called.

    `tracer`: makes a span for each operation, see `purgatory.service.tracing`. The context takes
    some 70 bytes of the payload. `platform`: for simulations.

    Raises TypeError and ValueError; BadAddress (a ValueError) for an address. Use the client as a
    context manager, or `close` it.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        name: str | None = None,
        timeout: Duration = 30.0,
        server_key: str | bytes | None = None,
        public_key: str | bytes | None = None,
        secret_key: str | bytes | None = None,
        lost_after: Duration = LOST_AFTER_S,
        on_outcome: OnOutcome | None = None,
        tracer: OperationTracer | None = None,
        platform: Platform = REAL_PLATFORM,
    ) -> None:
        addresses = parse_addresses(address)
        check_helpers(tracer, platform)
        if on_outcome is not None and check_function("on_outcome", on_outcome):
            raise TypeError(
                f"on_outcome is {on_outcome!r}, which no loop awaits; use AsyncClient instead"
            )
        self.timeout: float = checked_seconds(timeout, "timeout")
        self.address = address
        self.name: str = _unique_name(platform) if name is None else checked_filled(name, "name")
        self.platform = platform
        self._monotonic = platform.monotonic
        # By id. Callers add entries, the I/O thread removes them: atomic operations of a dict.
        self._futures: dict[str, ServiceFuture] = {}
        self._session = Session(self.name, self._futures, on_outcome, tracer, platform)
        options = socket_options(server_key, public_key, secret_key, lost_after)
        self._patience = Patience(self._futures, self.timeout, platform.monotonic)
        try:
            io_thread = ClientIOThread(
                addresses, self._session, options, self._patience, f"{self.name}-io", platform
            )
        except zmq.ZMQError as error:
            raise BadAddress(f"address is {address!r}: {error.strerror}") from error
        super().__init__(io_thread, self._session, self._patience, tracer, platform)
        at_exit.register_locks(self)

    def defer(
        self,
        *keys: str,
        timeout: Duration = 30.0,
        need: int = 1,
        kind: str = "",
        op_id: str | None = None,
        unique_for: Duration | None = None,
        payload: Any = None,
    ) -> ServiceFuture:
        """Have an operation wait at the server; returns the future of its end, at once.

        The operation completes once `need` distinct keys have been completed, or expires `timeout`
        after the server took it. The result is the value of the key or, with need > 1, a dict of
        keys and values. The future raises OperationExpired, OperationFailed, OperationCancelled,
        `Refused` if the server refused the operation, and Unavailable if the client was closed
        before. While no server answers, it raises RequestTimeout, after its timeout and the
        client's.

        `kind` and `payload` are kept with the operation. `op_id`: if the server already has an
        operation of this client and id, nothing is submitted, and this future gets its outcome. The
        server remembers such an id for `unique_for` after the end (default: the server's
        `remember_ended`; 0: not at all).

        Raises TypeError, ValueError and Unavailable. While 50,000 calls are unsent, as without a
        server, all methods but `lease` block; ClientBusy after the client's timeout.

        The server carries out a thread's calls in order. But calls of one kind share a message: if
        the server refuses the message for a bad call, the client sends the others again, perhaps
        after later calls. Where the order matters, wait for the answer before the next call.
        """
        submission = self._submission(keys, timeout, need, kind, op_id, unique_for, payload)
        with self._batcher.lock:
            if op_id is None:
                submission.op_id = self._next_id()
            elif (known := self._futures.get(submission.op_id)) is not None:
                return known
            op_id = submission.op_id
            give_up_at = self._patience.give_up_at(submission.timeout_ms)
            future = self._futures[op_id] = ServiceFuture(self, op_id, give_up_at)
            try:
                self._batcher.add(Submit, submission, future)
            except BaseException:
                self._futures.pop(op_id, None)
                raise
        return future

    submit = answered(LaterCalls.submit_later)
    complete = answered(LaterCalls.complete_later)
    fail = answered(LaterCalls.fail_later)
    extend = answered(LaterCalls.extend_later)
    cancel = answered(LaterCalls.cancel_later)
    query = answered(LaterCalls.query_later)
    unread = answered(LaterCalls.unread_later)
    list_page = answered(LaterCalls.list_page_later)
    stats = answered(LaterCalls.stats_later)

    schedule = answered(LaterCalls.schedule_later)
    job = answered(LaterCalls.job_later)
    jobs_page = answered(LaterCalls.jobs_page_later)
    job_counts = answered(LaterCalls.job_counts_later)
    overview = answered(LaterCalls.overview_later)
    cancel_job = answered(LaterCalls.cancel_job_later)
    cancel_jobs = answered(LaterCalls.cancel_jobs_later)
    reschedule_job = answered(LaterCalls.reschedule_job_later)
    run_job = answered(LaterCalls.run_job_later)
    retry_job = answered(LaterCalls.retry_job_later)
    drop_job = answered(LaterCalls.drop_job_later)
    pause = answered(LaterCalls.pause_later)
    resume = answered(LaterCalls.resume_later)
    limit = answered(LaterCalls.limit_later)
    limits = answered(LaterCalls.limits_later)
    repeat = with_handle(LaterCalls.repeat_later)
    change_repeat = answered(LaterCalls.change_repeat_later)
    repeats_page = answered(LaterCalls.repeats_page_later)

    def acknowledge(self, numbers: Iterable[int]) -> int:
        """Acknowledge outcomes of this client's name, by number; return how many there were.

        The server sends them no more.
        """
        self._refuse_in_callback()
        portions = in_portions(numbers, self._session.max_items)
        return sum(self._wait(self.acknowledge_later(some)) for some in portions)

    def repeats(self) -> Sequence[RepeatHandle]:
        """Return the repeats of this client's name, by their names."""
        filters = {"client": self.name}
        found = items_of(self.repeats_page, lambda page: page.repeats, sys.maxsize, filters)
        return [RepeatHandle(self, state) for state in found]

    def result(self, job: JobName, timeout: Duration | None = None) -> Any:
        """Wait for the end of a job; return the value of its handler.

        Lost connections and restarts of the server do not end the wait. Raises JobFailed for a dead
        job, JobCancelled, JobUnknown; TimeoutError after `timeout` seconds (None: no limit), but
        while no server answers not before the client's timeout; Unavailable if the client is
        closed. With a `timeout` of 0 it returns the result of an ended job.
        """
        self._refuse_in_callback()
        job_id = job_id_of(job)
        seconds = None if timeout is None else checked_seconds(timeout, "timeout")
        with self._end_of(job_id) as future:
            try:
                status = future.result(self.platform.wait(future.done, seconds))
            except TimeoutError as error:
                if not future.done():
                    return result_of(job_id, self._last_status(future, seconds or 0.0, error))
                status = future.result(0)  # it came meanwhile; or it is a TimeoutError
        return result_of(job_id, self.job(job_id) if status.left_out else status)

    def _last_status(
        self, future: JobEndFuture, seconds: float, error: TimeoutError
    ) -> JobStatus | None:
        """Ask for the job once more: it may have ended within `seconds`."""
        left = self.timeout - seconds
        if future.goes_on or left <= 0:
            raise still_pending(future.job_id, seconds) from error
        status = self._wait(self.job_later(future.job_id), left)
        return ended_status(future.job_id, status, seconds)

    def jobs(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        client: str | None = None,
        order: str = "due",
        limit: int | None = None,
    ) -> Iterator[JobStatus]:
        """Yield jobs of all clients visible to this client, page by page; at most `limit`.

        Filters: `state`, `kind`, `tag`, `client`. `order`: "due", earliest due first, or "newest",
        latest submission first. Not a snapshot: a job that changes meanwhile may be missing.
        """
        left = sys.maxsize if limit is None else checked_number(limit, "limit", 1)
        filters = {"state": state, "kind": kind, "tag": tag, "client": client}
        check_filters(**filters, order=order)
        filters["order"] = order
        return items_of(self.jobs_page, lambda page: page.jobs, left, filters)

    def list(
        self,
        *,
        kind: str | None = None,
        key: str | None = None,
        client: str | None = None,
        state: str | None = None,
        order: str = "oldest",
        with_jobs: bool = True,
        cursor: int = 0,
        limit: int | None = None,
    ) -> Iterator[OperationStatus]:
        """Yield operations of all clients visible to this client, page by page; at most `limit`.

        Filters: `kind`, a `key` waited for, `client`, `state`. `order`: by submission, "oldest"
        first, or "newest". `with_jobs`: False leaves jobs out. `cursor`: only operations beyond
        that number, see `list_page`. Not a snapshot, like `jobs`.
        """
        left = sys.maxsize if limit is None else checked_number(limit, "limit", 1)
        filters: dict[str, Any] = {
            "kind": kind,
            "key": key,
            "client": client,
            "state": state,
            "order": order,
            "with_jobs": with_jobs,
            "cursor": cursor,
        }
        check_operation_filters(**filters)
        return items_of(self.list_page, lambda page: page.states, left, filters)

    def lease(
        self, name: str, *, keep: Duration = 30.0, timeout: Duration | None = None
    ) -> LeaseHandle:
        """Return a lease of a name, for `with`: one program at a time holds it.

        The block begins when the program holds the lease. Waiting programs take turns. After
        `timeout` (None: never) raises LeaseTimeout, or RequestTimeout if no server answers. The
        client renews the lease; if the program dies, or cannot reach the server, the lease ends
        after `keep`, at least 0.1 s. It lasts over restarts of the server. See `LeaseHandle`.
        """
        terms = LeaseTerms(name, keep, timeout)
        return LeaseHandle(self.lease_calls, self._wait_for_lease, terms)

    def _wait_for_lease(self, future: ReplyFuture[_T], seconds: float) -> _T:
        self._refuse_in_callback()
        return self._wait(future, min(seconds, self.timeout))

    def flush(self, timeout: Duration | None = None) -> None:
        """Wait until all earlier calls are answered, and so on disk.

        `timeout`: seconds, by default the client's. Raises RequestTimeout and Unavailable.
        """
        self._refuse_in_callback()
        seconds = self.timeout if timeout is None else checked_seconds(timeout, "timeout")
        if self._io_thread.lead(None, seconds):
            return
        answered: ReplyFuture[None] = ReplyFuture()
        self._io_thread.post(FlushCommand(answered))
        self._wait(answered, timeout)

    def _refuse_in_callback(self) -> None:
        if self._io_thread.turn.holder == threading.get_ident():
            raise RuntimeError(
                "a callback of the client's futures cannot wait for an answer; use complete_later "
                "and its like, or another thread"
            )

    def _wait(self, future: ReplyFuture[_T], timeout: Duration | None = None) -> _T:
        seconds = self.timeout if timeout is None else checked_seconds(timeout, "timeout")
        deadline = self._monotonic() + seconds
        self.platform.wait(future.done, seconds)
        self._io_thread.lead(future, seconds)
        try:
            return future.result(max(0.0, deadline - self._monotonic()))
        except TimeoutError as error:
            if future.done():  # meanwhile; or the answer is a TimeoutError, as OperationExpired is
                return future.result(0)
            reason = self._io_thread.connection_error
            trouble = f" ({reason})" if reason else ""
            text = f"no answer from {self.address} within {seconds:g} s{trouble}"
            raise RequestTimeout(text) from error

    def close(self, timeout: Duration | None = None) -> None:
        """End the connection once all calls are answered, or after `timeout` seconds.

        By default after five, or once the server has been silent for the client's timeout.
        Unresolved futures fail with Unavailable; their operations go on at the server. Idempotent.
        In a finalizer at the interpreter's exit it returns at once.
        """
        if timeout is None:
            seconds, command = CLOSE_TIMEOUT_S, CloseCommand(CLOSE_TIMEOUT_S, self.timeout)
        else:
            seconds = checked_seconds(timeout, "timeout")
            command = CloseCommand(seconds)
        self.lease_calls.keeper.close()
        with contextlib.suppress(Unavailable):  # closed already, or a forked child's copy
            self._io_thread.post(command)
        if threading.current_thread() is not self._io_thread.thread:
            self._io_thread.thread.join(seconds + CLOSE_GRACE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has a connection and a thread")

    def __repr__(self) -> str:
        return f"<Client {self.name!r} of {self.address}, {len(self._futures)} waiting>"


def _unique_name(platform: Platform) -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{platform.new_id()[:8]}"
