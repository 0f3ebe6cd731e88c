"""Session: a client's side of the protocol, without sockets, threads or clocks.

Calls go in and are grouped into messages; messages of the server go in and resolve futures; what is
to be sent comes out. Messages that were not answered are sent again on a new connection. Used by
the thread that has the `Turn`; only the dict of futures is shared with the callers, which enter a
future before its call gets here.

While few messages are unanswered, calls are sent at once. Then they gather into larger messages.
"""

import itertools
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from purgatory.core.future import CANCELLED_AND_NOTIFIED, FINISHED, PENDING
from purgatory.service import protocol
from purgatory.service.client.batcher import CALLS_PER_MESSAGE, Call, RequestType
from purgatory.service.client.futures import ReplyFuture, ServiceFuture, SubmissionReceipt
from purgatory.service.client.outcome_handler import OnOutcome, OutcomeHandled, OutcomeHandler
from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.errors import (
    HelloRequired,
    ServerClosing,
    ServiceError,
    TooLarge,
    TooManyClients,
    WrongVersion,
    error_for,
)
from purgatory.service.job_messages import (
    DeadEnded,
    DeadJobs,
    EndDead,
    Finish,
    Finished,
    Jobs,
    Keep,
    Kept,
    ReadDead,
    Work,
    Working,
)
from purgatory.service.platform.platform import REAL_PLATFORM, Platform
from purgatory.service.protocol import (
    OLDEST_VERSION,
    VERSION,
    Acknowledge,
    Complete,
    Extend,
    Fail,
    OutcomeMessage,
    Outcomes,
    Query,
    ReadOperations,
    Stats,
    Submit,
    Unread,
    encode,
)
from timingwheel.lowlevel import ATOMIC_SECTIONS

if TYPE_CHECKING:
    from purgatory.service.client.worker_link import WorkerLink

log: logging.Logger = logging.getLogger(__name__)

# From so many unanswered messages on, only full messages are sent.
PIPELINE_DEPTH: Final = 2
# Unanswered messages, at most.
MAX_UNANSWERED: Final = 32
# Outcomes remembered as acknowledged: an acknowledgement may be lost with the connection.
REMEMBERED_ACKNOWLEDGEMENTS: Final = 1 << 16

#: Requests of which each call is a message of its own.
_ONE_CALL: Final = (Stats, Unread, Acknowledge, Work, ReadDead, EndDead, ReadOperations)
#: Requests that a server of version 1 does not know.
_OF_VERSION_2: Final = (
    Extend,
    Fail,
    Unread,
    Acknowledge,
    Work,
    Keep,
    Finish,
    ReadDead,
    EndDead,
    ReadOperations,
)
#: Errors that end the connection, not the calls: these are sent again on the next one.
_TRANSIENT_CODES: Final = (HelloRequired.code, ServerClosing.code, TooManyClients.code)


class Session:
    """The state of the conversation with the server, over all connections.

    `name` is the client's. `futures` maps the ids of unfinished operations to their futures.
    `on_outcome` is called with each outcome that has no future here; `tracer` hears of the ends of
    operations that carry the context of a trace.
    """

    def __init__(
        self,
        name: str,
        futures: dict[str, ServiceFuture],
        on_outcome: OnOutcome | None,
        tracer: OperationTracer | None = None,
        platform: Platform = REAL_PLATFORM,
    ) -> None:
        self._name = name
        self._futures = futures
        #: Calls `on_outcome`; None: this client takes no outcomes but for its futures.
        self.handler: OutcomeHandler | None = (
            None if on_outcome is None else OutcomeHandler(on_outcome, name, platform)
        )
        #: What a worker asks for; None: this client is none.
        self.worker: WorkerLink | None = None
        self._tracer = tracer
        self._seqs = itertools.count(1)
        self._token = platform.new_id()  # names the requests of these numbers, for the server
        self._hello_seq = 0  # of the last hello
        self._version = VERSION  # of this connection, or offered for it
        # In order; all groups are full but the last of each run of one kind.
        self._unsent: deque[_CallGroup] = deque()
        self._unanswered: dict[int, tuple[bytes, _CallGroup]] = {}  # in order of sequence number
        self.unsent_calls: int = 0
        self.finished_calls: int = 0  # sent or failed, since the start
        self._max_message_bytes = 0
        self._max_items = CALLS_PER_MESSAGE
        self._acknowledged: dict[int, None] = {}  # numbers of outcomes, the latest last
        self._handled: list[int] = []  # numbers to acknowledge with the next messages
        self.welcome: protocol.Welcome | None = None  # of this connection
        #: The server's refusal of this client, if there was one: permanent.
        self.failure: ServiceError | None = None
        #: Whether the I/O thread must replace the connection.
        self.connection_lost: bool = False

    @property
    def busy(self) -> bool:
        """Whether calls are unanswered."""
        return bool(self._unsent or self._unanswered)

    @property
    def ready(self) -> bool:
        """Whether calls can be sent: the server has answered the hello."""
        return self.welcome is not None and self.failure is None

    @property
    def awaits_one(self) -> bool:
        """Whether one message is unanswered, and no call unsent."""
        return len(self._unanswered) == 1 and not self._unsent

    def on_connected(self) -> bytes:
        """Begin a new connection; returns its first message, the hello."""
        self.connection_lost = False
        self.welcome = None
        return self._hello(VERSION)

    def _hello(self, version: int) -> bytes:
        self._version = version
        self._hello_seq = next(self._seqs)
        takes = self.handler is not None
        return encode(protocol.Hello(self._hello_seq, version, self._name, self._token, takes))

    def on_disconnected(self) -> None:
        """Note the end of the connection: nothing is sent until the next welcome."""
        self.welcome = None

    def add(self, request: RequestType, calls: Sequence[Call]) -> None:
        """Add calls of one kind, to be sent in order."""
        if self.failure is not None:
            self.finished_calls += len(calls)
            _fail_calls(calls, self.failure)
            return
        self.unsent_calls += len(calls)
        limit = 1 if request in _ONE_CALL else CALLS_PER_MESSAGE
        start = 0
        if self._unsent and self._unsent[-1].request is request:
            last = self._unsent[-1].calls
            start = limit - len(last)
            last += calls[:start]
        for first in range(start, len(calls), limit):
            self._unsent.append(_CallGroup(request, list(calls[first : first + limit])))

    def take_messages(self) -> list[bytes]:
        """Return the messages that can be sent now."""
        messages = self._take_acknowledgements() if self._handled else []
        while self._unsent and self.welcome is not None:
            unanswered = len(self._unanswered)
            if unanswered >= MAX_UNANSWERED:
                break
            if unanswered >= PIPELINE_DEPTH and self.unsent_calls < CALLS_PER_MESSAGE:
                break
            message = self._next_message()
            if message is not None:
                messages.append(message)
        return messages

    def _next_message(self) -> bytes | None:
        """Take the first calls that fit into a message; None if the first one alone does not."""
        group = self._unsent.popleft()
        if self._version < VERSION:
            group = self._fail_unknown(group)
            if not group.calls:
                return None
        seq = next(self._seqs)
        group = self._split(group, self._max_items)
        while len(frame := group.encode(seq)) > self._max_message_bytes and len(group.calls) > 1:
            group = self._split(group, len(group.calls) // 2)
        self._count_finished(len(group.calls))
        if len(frame) > self._max_message_bytes:
            limit = self._max_message_bytes
            error = TooLarge(f"message of {len(frame)} bytes; expected at most {limit}")
            self._fail_group(group, error)
            return None
        self._unanswered[seq] = (frame, group)
        return frame

    def _split(self, group: "_CallGroup", count: int) -> "_CallGroup":
        """Return the first `count` calls of a group; the others are sent next."""
        if len(group.calls) > count:
            self._unsent.appendleft(_CallGroup(group.request, group.calls[count:]))
            group = _CallGroup(group.request, group.calls[:count])
        return group

    def _fail_unknown(self, group: "_CallGroup") -> "_CallGroup":
        """Fail the calls that a server of version 1 does not know; returns the others."""
        calls = [call for call in group.calls if _is_of_version_1(group.request, call)]
        if len(calls) < len(group.calls):
            unknown = [call for call in group.calls if not _is_of_version_1(group.request, call)]
            self._count_finished(len(unknown))
            message = "the server speaks version 1 of the protocol, which does not have that"
            _fail_calls(unknown, WrongVersion(message))
        return _CallGroup(group.request, calls)

    def _count_finished(self, count: int) -> None:
        self.unsent_calls -= count
        self.finished_calls += count

    def receive(self, frame: bytes) -> list[bytes]:
        """Handle a message of the server; returns what is to be sent at once."""
        return self.handle(protocol.decode_answer(frame))

    def has_callbacks(self, message: Any) -> bool:
        """Tell whether handling a message may run callbacks, or send anything."""
        if isinstance(message, (Outcomes, Jobs, protocol.Welcome, protocol.Failure)):
            return True
        if isinstance(message, protocol.Ping):
            return False
        _, group = self._unanswered.get(message.seq, (b"", None))
        return group is not None and any(future._observed for _, future in group.calls)

    def handle(self, message: Any) -> list[bytes]:
        """Handle a decoded message of the server; returns what is to be sent at once."""
        if isinstance(message, Outcomes):
            return self._resolve_outcomes(message.outcomes, message.take)
        if isinstance(message, Jobs):
            if self.worker is not None:
                self.worker.on_jobs(message.jobs)
            return []
        if isinstance(message, protocol.Welcome):
            return self._on_welcome(message)
        if isinstance(message, protocol.Failure):
            return self._on_failure(message)
        if not isinstance(message, protocol.Ping):
            self._on_reply(message)
        return []

    def _on_welcome(self, message: protocol.Welcome) -> list[bytes]:
        self.welcome = message
        self._version = min(self._version, message.version)
        self._max_message_bytes = message.limits.message_bytes
        self._max_items = min(CALLS_PER_MESSAGE, message.limits.items or CALLS_PER_MESSAGE)
        if self.worker is None:
            return self._resend_unanswered()
        self.worker.on_connected()  # the leases of the connection before have ended
        return [encode(Work(next(self._seqs), *self.worker.asks)), *self._resend_unanswered()]

    def _resend_unanswered(self) -> list[bytes]:
        """Return the unanswered messages, as they were sent: the server does each once."""
        if self._version < VERSION:
            self._fail_unanswered_unknown()
        return [frame for frame, _ in self._unanswered.values()]

    def _fail_unanswered_unknown(self) -> None:
        """Fail messages to a server that was replaced by one of version 1, which knows less."""
        for seq, (_, group) in list(self._unanswered.items()):
            if not all(_is_of_version_1(group.request, call) for call in group.calls):
                del self._unanswered[seq]
                message = "the server was replaced by one that speaks version 1 of the protocol"
                self._fail_group(group, WrongVersion(message))

    def _on_reply(self, message: Any) -> None:
        _, group = self._unanswered.get(message.seq, (b"", None))
        if group is None:
            return  # a second reply: the message was sent on two connections
        if isinstance(message, protocol.Submitted):
            self._on_submitted(group, message)
        else:
            self._on_results(group, message)
        # Last: if a caller is interrupted before, the message is sent again.
        self._unanswered.pop(message.seq, None)

    def _on_results(self, group: "_CallGroup", message: Any) -> None:
        results: Sequence[Any]
        if isinstance(message, (protocol.Completed, protocol.Failed)):
            results = message.counts
        elif isinstance(message, (protocol.Cancelled, protocol.Extended, Kept, Finished)):
            results = message.done
        elif isinstance(message, protocol.States):
            results = _as_values(message.states)
        elif isinstance(message, Working):
            results = [None]
        else:
            results = [_only_result(message)]
        for (_, future), result in zip(group.calls, results, strict=True):
            resolve(future, result)

    def _on_submitted(self, group: "_CallGroup", message: protocol.Submitted) -> None:
        refused = {item.index: item for item in message.refused}
        known = {item.index: item.state for item in message.known}
        for index, (submission, future) in enumerate(group.calls):
            if refused and (item := refused.get(index)) is not None:
                self._forget(submission.op_id, future)
                _reject(future, error_for(item.code, item.message))
            elif isinstance(future, ServiceFuture):
                future.acknowledged = True
            else:
                state = known.get(index, "pending")
                resolve(future, SubmissionReceipt(submission.op_id, state))

    def _on_failure(self, message: protocol.Failure) -> list[bytes]:
        error = error_for(message.code, message.message)
        if message.code in _TRANSIENT_CODES:
            self.connection_lost = True
        elif message.seq == self._hello_seq:
            if isinstance(error, WrongVersion) and self._version > OLDEST_VERSION:
                return [self._hello(OLDEST_VERSION)]
            self.fail(error)
        elif message.seq in self._unanswered:
            self._on_refused(self._unanswered.pop(message.seq)[1], error)
        else:
            log.warning("the server says: %s", error)
        return []

    def _on_refused(self, group: "_CallGroup", error: ServiceError) -> None:
        """Fail calls; queries whose answer is too large are asked again in two halves."""
        if group.request is Query and isinstance(error, TooLarge) and len(group.calls) > 1:
            self.unsent_calls += len(group.calls)
            self.finished_calls -= len(group.calls)
            self._unsent.appendleft(self._split(group, len(group.calls) // 2))
        else:
            self._fail_group(group, error)

    def _fail_group(self, group: "_CallGroup", error: ServiceError) -> None:
        if group.request is Submit:
            for submission, future in group.calls:
                self._forget(submission.op_id, future)
        _fail_calls(group.calls, error)

    def _forget(self, op_id: str, future: ReplyFuture[Any]) -> None:
        """Forget a future; that of another call with the same operation stays."""
        if self._futures.get(op_id) is future:
            del self._futures[op_id]

    def fail(self, error: ServiceError) -> None:
        """Fail all calls and futures with an error, and all later calls: permanent."""
        self.failure = error
        groups = [group for _, group in self._unanswered.values()]
        groups += self._unsent
        self._unanswered.clear()
        self._unsent.clear()
        self._count_finished(self.unsent_calls)
        for group in groups:
            self._fail_group(group, error)
        while self._futures:
            _, future = self._futures.popitem()
            _reject(future, error)

    @property
    def next_retry_at(self) -> float | None:
        """When `retry_outcomes` has something to do, by the monotonic clock; None: not yet."""
        return None if self.handler is None else self.handler.next_retry_at

    def retry_outcomes(self, now: float) -> None:
        """Hand outcomes over again for which `on_outcome` has raised, if it is time."""
        if self.handler is not None and self.handler.next_retry_at is not None:
            self._note_acknowledged(self.handler.retry(now))

    def finish_outcome(self, handled: OutcomeHandled) -> None:
        """Acknowledge an outcome for which `on_outcome` returned a future, if that says so."""
        if self.handler is not None and self.handler.finish(handled):
            self._note_acknowledged([handled.number])

    def _note_acknowledged(self, numbers: list[int]) -> None:
        """Have outcomes acknowledged now or, without a connection, when they come again."""
        self._handled += numbers
        for number in numbers:
            self._acknowledged[number] = None
        while len(self._acknowledged) > REMEMBERED_ACKNOWLEDGEMENTS:
            del self._acknowledged[next(iter(self._acknowledged))]

    def _take_acknowledgements(self) -> list[bytes]:
        """Return the messages that acknowledge what is handled; none without a connection."""
        done, self._handled = self._handled, []
        if self.welcome is None:
            return []
        return [
            encode(protocol.Acknowledge(next(self._seqs), done[start : start + self._max_items]))
            for start in range(0, len(done), self._max_items)
        ]

    def _resolve_outcomes(self, outcomes: Sequence[OutcomeMessage], take: bool) -> list[bytes]:
        """Resolve futures; returns the acknowledgement, if there is anything to acknowledge.

        `take`: whether outcomes without a future are for this connection.
        """
        self._note_acknowledged(
            [outcome.number for outcome in outcomes if self._resolve_outcome(outcome, take)]
        )
        return self._take_acknowledgements()

    def _resolve_outcome(self, outcome: OutcomeMessage, take: bool) -> bool:
        """Resolve the outcome's future; returns whether the outcome is to be acknowledged."""
        if outcome.number in self._acknowledged:
            return True
        if len(outcome.payload) > 1:
            traceparent, outcome.payload = unwrap(outcome.payload)
            if traceparent and self._tracer is not None and self._is_for_us(outcome, take):
                with self._tracer.ended(outcome, traceparent):
                    return self._deliver(outcome, take)
        return self._deliver(outcome, take)

    def _is_for_us(self, outcome: OutcomeMessage, take: bool) -> bool:
        return outcome.op_id in self._futures or (take and self.handler is not None)

    def _deliver(self, outcome: OutcomeMessage, take: bool) -> bool:
        future = self._futures.pop(outcome.op_id, None)
        if future is not None:
            future.acknowledged = True
            if future._state == PENDING:
                _resolve_future(future, outcome)
            return True
        if self.handler is None or not take:
            return False  # another client of this name may take it
        protocol.unpack_values(outcome)
        return self.handler.handle(outcome)


class _CallGroup:
    """Calls of one kind, for one message."""

    __slots__ = ("calls", "request")

    def __init__(self, request: RequestType, calls: list[Call]) -> None:
        self.request = request
        self.calls = calls

    def encode(self, seq: int) -> bytes:
        """Return the message that makes all of the calls."""
        request: Any = self.request
        items = [item for item, _ in self.calls]
        if request is Stats:
            return encode(Stats(seq))
        if request is Unread:
            return encode(Unread(seq, items[0]))
        if request is Acknowledge:
            return encode(Acknowledge(seq, items[0], answer=True))
        if request in (Work, EndDead, ReadOperations):
            return encode(request(seq, *items[0]))
        if request is ReadDead:
            return encode(ReadDead(seq, items[0]))
        return encode(request(seq, items))


def _only_result(message: Any) -> Any:
    """Return the result of a request of which each call is a message of its own."""
    if isinstance(message, protocol.StatsReply):
        return message.figures
    if isinstance(message, protocol.Acknowledged):
        return message.count
    if isinstance(message, DeadEnded):
        return sum(message.done)
    if isinstance(message, DeadJobs):
        return _payloads_as_values(message.jobs)
    if isinstance(message, protocol.Operations):
        _as_values(message.states)
        return message
    return _as_values(message.outcomes)


def _payloads_as_values(jobs: list[Any]) -> list[Any]:
    """Return jobs with their payloads alone, decoded."""
    for job in jobs:
        if len(job.payload) > 1:
            job.payload = unwrap(job.payload)[1]
        job.payload = protocol.unpack_or_raw(job.payload)
    return jobs


def _as_values(messages: list[Any]) -> list[Any]:
    """Return outcomes or states with their payloads alone, decoded as the results are."""
    for message in messages:
        if len(message.payload) > 1:
            message.payload = unwrap(message.payload)[1]
        protocol.unpack_values(message)
    return messages


def _is_of_version_1(request: RequestType, call: Call) -> bool:
    """Whether a server of version 1 of the protocol knows what a call asks for."""
    if request is Complete:
        completion = call[0]
        return completion.limit is None and not completion.hold_ms
    return request not in _OF_VERSION_2


def resolve(future: ReplyFuture[Any], result: object) -> None:
    """Set the result of a future, unless it was cancelled. Called by the I/O thread.

    Here and not in `futures`, as this module is compiled.
    """
    if future._state in (FINISHED, CANCELLED_AND_NOTIFIED):
        return  # by a thread that was interrupted
    if ATOMIC_SECTIONS and not future._observed and future._state == PENDING:
        # Atomic: a reader finds the future resolved, or was registered before, which sets
        # `_observed`. So there is no waiter to notify.
        future._result = result
        future._state = FINISHED
    elif future.set_running_or_notify_cancel():
        future.set_result(result)


def _resolve_future(future: ServiceFuture, outcome: OutcomeMessage) -> None:
    if outcome.outcome != "completed":
        future.resolve_without_result(outcome)
        return
    try:
        result = protocol.unpack(outcome.result)
    except ServiceError as error:
        future.set_exception(error)
    else:
        resolve(future, result)


def _reject(future: ReplyFuture[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _fail_calls(calls: Sequence[Call], error: ServiceError) -> None:
    for _, future in calls:
        _reject(future, error)
