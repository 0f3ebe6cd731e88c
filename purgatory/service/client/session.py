"""Session: a client's side of the protocol, without sockets, threads or clocks.

Calls and the server's messages go in; messages to send come out. Unanswered messages are sent again
on a new connection. Used with the `Turn`; only the dict of futures is shared with callers, which
enter a future before its call gets here.
"""

import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final

from purgatory.service import protocol
from purgatory.service.client.calls import (
    CALLS_PER_MESSAGE,
    Call,
    CallBatch,
    RequestType,
    decode_values,
    fail_calls,
    reject,
    resolve,
)
from purgatory.service.client.futures import ReplyFuture, ServiceFuture, SubmissionReceipt
from purgatory.service.client.jobs.job_handle import ScheduledFuture
from purgatory.service.client.jobs.job_waits import JobWaits
from purgatory.service.client.older_servers import lacks, missing
from purgatory.service.client.outcomes import OnOutcome, OutcomeHandler, ReceivedOutcomes
from purgatory.service.client.trace_context import OperationTracer
from purgatory.service.client.unsent_calls import MAX_SENDINGS, Resending, UnsentCalls
from purgatory.service.client.worker_link import BEGIN_VERSION, WorkerLink
from purgatory.service.encoding import encode
from purgatory.service.errors import (
    OF_ONE_CALL,
    TRANSIENT,
    RequestAbandoned,
    ServiceError,
    Standby,
    WrongVersion,
    error_for,
)
from purgatory.service.job_messages import Begin, CancelLeases, JobEnds, LeaseReady, WatchJobs
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.portions import in_portions
from purgatory.service.protocol import OLDEST_VERSION, VERSION, Jobs, Outcomes, Query, Submit, Work

log: logging.Logger = logging.getLogger(__name__)

# With so many unanswered messages, calls of one kind gather into larger messages.
PIPELINE_DEPTH: Final = 2
#: Most unanswered messages: fewer than MOST_UNREAD of the server's flood gates.
MAX_UNANSWERED: Final = 12
# A set: `isinstance` takes a microsecond for each class.
_NO_REPLIES: Final = {*protocol.Push.__subclasses__(), protocol.Welcome, protocol.Failure}


class Session:
    """The state of the conversation with the server, over all connections.

    `futures`: by operation id. `on_outcome`: called with outcomes without a future.
    """

    def __init__(
        self,
        name: str,
        futures: dict[str, ServiceFuture],
        on_outcome: OnOutcome | None,
        tracer: OperationTracer | None = None,
        platform: Platform = REAL_PLATFORM,
    ) -> None:
        self.name: str = name
        #: Called when the turn of a waiter has come.
        self.on_lease_ready: Callable[[LeaseReady], None] = lambda _: None
        self._futures = futures
        self.handler: OutcomeHandler | None = (
            None if on_outcome is None else OutcomeHandler(on_outcome, name, platform)
        )
        self.received: ReceivedOutcomes = ReceivedOutcomes(futures, self.handler, tracer)
        self.job_waits: JobWaits = JobWaits()
        #: None: the client is no worker.
        self.worker: WorkerLink | None = None
        #: Leases whose handlers have begun, until the server is told. Any thread may add some.
        self.begun: deque[protocol.Lease] = deque()
        self._seqs = itertools.count(1)
        self._token = platform.new_id()  # makes the numbers unique
        self._hello_seq = 0
        self._version = VERSION  # agreed on, or offered
        self._unsent = UnsentCalls()
        self._unanswered: dict[int, tuple[bytes, CallBatch]] = {}  # in order of sequence number
        self._resending = Resending(self._unanswered)
        self.finished_calls: int = 0  # sent or failed, since the start
        self._max_message_bytes = 0
        #: Most items of a message.
        self.max_items: int = CALLS_PER_MESSAGE
        self.welcome: protocol.Welcome | None = None  # of this connection
        #: The server's permanent refusal, or what ended the client.
        self.failure: ServiceError | None = None
        #: The I/O thread must replace the connection.
        self.connection_lost: bool = False
        #: The refusal of a standby.
        self.standby: Standby | None = None

    @property
    def busy(self) -> bool:
        """Whether calls are unanswered."""
        return bool(self._unsent.batches or self._unanswered)

    @property
    def awaits_one(self) -> bool:
        """Whether one message is unanswered, and no call unsent."""
        return len(self._unanswered) == 1 and not self._unsent.batches

    @property
    def expects_frames(self) -> bool:
        """Whether answers, outcomes, jobs or their ends may come."""
        return bool(
            self._unsent.batches
            or self._unanswered
            or self._futures
            or self.handler is not None
            or self.worker is not None
            or self.job_waits
        )

    def on_connected(self) -> bytes:
        """Begin a new connection; return its first message, the hello."""
        self.connection_lost = False
        self.standby = None
        self.welcome = None
        return self._hello(VERSION)

    def _hello(self, version: int) -> bytes:
        self._version = version
        self._hello_seq = next(self._seqs)
        takes = self.handler is not None
        return encode(protocol.Hello(self._hello_seq, version, self.name, self._token, takes))

    def probe(self) -> bytes:
        """Return a message that only asks for an answer."""
        return encode(Query(next(self._seqs), []))

    def trial_hello(self) -> bytes:
        """Return the hello of a `Scout`."""
        return encode(protocol.Hello(next(self._seqs), VERSION, self.name, self._token, False))

    def on_disconnected(self, lost: bool) -> None:
        """Send nothing until the next welcome; if `lost`, give up messages sent too often."""
        if lost and self.welcome is not None:
            error = f"the connection was lost {MAX_SENDINGS} times after this request was sent"
            for batch in self._resending.take_abandoned():
                self._fail_batch(batch, RequestAbandoned(f"{error}; it is not sent again"))
        self.welcome = None
        # They come again: a server restored meanwhile may have other numbers.
        self.received.handled.clear()
        # A caller may have been interrupted.
        self._unsent.recount()

    def add(self, request: RequestType, calls: Sequence[Call]) -> None:
        """Add calls of one kind at the end."""
        if self.failure is not None:
            self.finished_calls += len(calls)
            # A copy: each raise adds to an error's traceback.
            self._fail_batch(CallBatch(request, [*calls]), copy(self.failure))
            return
        self._unsent.add(request, calls)

    def begin(self, request: RequestType, call: Call) -> list[bytes] | None:
        """Return the messages of a call; None: calls cannot be sent now."""
        if self.welcome is None or self.failure is not None or self.busy:
            return None
        self.add(request, [call])
        return self.take_messages()

    def take_messages(self) -> list[bytes]:
        """Return the messages to send."""
        messages = self._take_acknowledgements() if self.received.handled else []
        if self.job_waits.left:
            messages += self._take_unwatched()
        if self.begun and self.welcome is not None:
            messages += self._take_begun()
        if self._unanswered and self._resending.is_under_way:
            return messages + (self._resending.next() if self.welcome is not None else [])
        while self._unsent.batches and self.welcome is not None:
            unanswered = len(self._unanswered)
            if unanswered >= MAX_UNANSWERED:
                break
            if unanswered >= PIPELINE_DEPTH and self._unsent.may_gather:
                break
            message = self._next_message()
            if message is not None:
                messages.append(message)
        return messages

    def _next_message(self) -> bytes | None:
        """Take the first calls that fit into a message; None: they were failed."""
        batch = self._unsent.take()
        if self._version < VERSION:
            batch = self._without_unknown(batch)
            if not batch.calls:
                return None
        seq = next(self._seqs)
        batch, frame, error = self._unsent.fitting(
            batch, seq, self.max_items, self._max_message_bytes
        )
        self.finished_calls += len(batch.calls)
        if error is not None:
            self._fail_batch(batch, error)
            return None
        self._unanswered[seq] = (frame, batch)
        return frame

    def _without_unknown(self, batch: CallBatch) -> CallBatch:
        known = []
        for call in batch.calls:
            name = missing(self._version, batch.request, call[0])
            if name:
                self.finished_calls += 1
                self._fail_batch(CallBatch(batch.request, [call]), lacks(self._version, name))
            else:
                known.append(call)
        return CallBatch(batch.request, known)

    def has_callbacks(self, message: Any) -> bool:
        """Tell whether handling a message may run callbacks or send anything."""
        if type(message) in _NO_REPLIES:
            return type(message) is not protocol.Ping
        _, batch = self._unanswered.get(message.seq, (b"", None))
        if batch is None:
            return False
        return batch.request is WatchJobs or any(future.is_observed for _, future in batch.calls)

    def handle(self, message: Any) -> list[bytes]:
        """Handle a message of the server; return messages to send at once."""
        if type(message) in _NO_REPLIES:
            return self._handle_other(message)
        self._on_reply(message)
        return []

    def _handle_other(self, message: Any) -> list[bytes]:
        if isinstance(message, Outcomes):
            self.received.resolve(message.outcomes, message.take)
            return self._take_acknowledgements()
        if isinstance(message, protocol.Welcome):
            return self._on_welcome(message)
        if isinstance(message, protocol.Failure):
            return self._on_failure(message)
        if isinstance(message, JobEnds):
            decode_values(message.jobs)
            self.job_waits.note(message.jobs)
        elif isinstance(message, LeaseReady):
            self.on_lease_ready(message)
        elif self.worker is not None:
            if isinstance(message, Jobs):
                self.worker.on_jobs(message.jobs)
            elif isinstance(message, CancelLeases):
                self.worker.on_cancelled(message)
        return []  # else a ping

    def _on_welcome(self, message: protocol.Welcome) -> list[bytes]:
        self.welcome = message
        self._version = min(self._version, message.version)
        self._max_message_bytes = message.limits.message_bytes
        self.max_items = min(CALLS_PER_MESSAGE, message.limits.items or CALLS_PER_MESSAGE)
        lost = self.job_waits.take_lost()
        self.finished_calls -= len(lost)  # made once more
        self.add(WatchJobs, lost)
        if self.worker is None:
            return self._resend_unanswered()
        self.begun.clear()
        self.worker.on_connected()
        return [encode(Work(next(self._seqs), *self.worker.asks)), *self._resend_unanswered()]

    def _resend_unanswered(self) -> list[bytes]:
        """Return unanswered messages: the server does each once."""
        if self._version < VERSION:
            self._fail_unanswered_unknown()
        return self._resending.begin()

    def _fail_unanswered_unknown(self) -> None:
        """Fail messages unknown to an older server that replaced a newer server."""
        for seq, (_, batch) in list(self._unanswered.items()):
            names = [missing(self._version, batch.request, item) for item, _ in batch.calls]
            if any(names):
                del self._unanswered[seq]
                self._fail_batch(batch, lacks(self._version, max(names)))

    def _on_reply(self, message: Any) -> None:
        _, batch = self._unanswered.get(message.seq, (b"", None))
        if batch is None:
            return  # a second reply: the message was sent on two connections
        if isinstance(message, protocol.Submitted):
            self._on_submitted(batch, message)
        elif batch.request is WatchJobs:
            decode_values(message.jobs)
            self.job_waits.note(message.jobs)
        else:
            batch.resolve(message)
        # Last: if a caller is interrupted before, the message is sent again.
        self._unanswered.pop(message.seq, None)

    def _on_submitted(self, batch: CallBatch, message: protocol.Submitted) -> None:
        refused = {item.index: item for item in message.refused}
        known = {item.index: item.state for item in message.known}
        for index, (submission, future) in enumerate(batch.calls):
            if refused and (item := refused.get(index)) is not None:
                self._forget(submission.op_id, future)
                reject(future, error_for(item.code, item.message))
            elif isinstance(future, ServiceFuture):
                future.acknowledged = True
            elif isinstance(future, ScheduledFuture):
                resolve(future, future.handle(submission.op_id, is_new=index not in known))
            else:
                state = known.get(index, "pending")
                resolve(future, SubmissionReceipt(submission.op_id, state))

    def _on_failure(self, message: protocol.Failure) -> list[bytes]:
        error = error_for(message.code, message.message)
        if isinstance(error, Standby):
            self.standby = error
            self.connection_lost = True
        elif isinstance(error, TRANSIENT):
            self.connection_lost = True
        elif message.seq == self._hello_seq:
            if isinstance(error, WrongVersion) and self._version > OLDEST_VERSION:
                return [self._hello(self._version - 1)]
            self.fail(error)
        elif message.seq in self._unanswered:
            self._on_refused(self._unanswered.pop(message.seq)[1], error)
        else:
            log.warning("error from the server: %s", error)
        return []

    def _on_refused(self, batch: CallBatch, error: ServiceError) -> None:
        """Fail a call; send the halves of a batch again, if one of its calls may be the reason.

        The server has done nothing of the message, or the answer was too large. The halves come
        after later messages, see `Client.defer`.
        """
        if len(batch.calls) > 1 and isinstance(error, OF_ONE_CALL):
            self.finished_calls -= len(batch.calls)
            self._unsent.put_first(self._unsent.split(batch, len(batch.calls) // 2))
        else:
            self._fail_batch(batch, error)

    def _fail_batch(self, batch: CallBatch, error: Exception) -> None:
        if batch.request is Submit:
            for submission, future in batch.calls:
                self._forget(submission.op_id, future)
        if batch.request is WatchJobs:
            self.job_waits.fail(batch.calls, error)
        fail_calls(batch.calls, error)

    def _forget(self, op_id: str, future: ReplyFuture[Any]) -> None:
        """Forget a future, but not another call's of the same operation."""
        if self._futures.get(op_id) is future:
            del self._futures[op_id]

    def fail(self, error: ServiceError) -> None:
        """Fail all calls and futures, and all later calls."""
        self.failure = error
        batches = [batch for _, batch in self._unanswered.values()]
        self.finished_calls += self._unsent.count
        batches += self._unsent.take_all()
        self._unanswered.clear()
        for batch in batches:
            self._fail_batch(batch, error)
        while self._futures:
            _, future = self._futures.popitem()
            reject(future, error)
        self.job_waits.fail_all(error)

    @property
    def max_result_bytes(self) -> int | None:
        """How large a job's result may be; None: no results, or not known."""
        welcome = self.welcome
        if welcome is None or self._version < BEGIN_VERSION:
            return None
        return welcome.limits.payload_bytes

    def _take_acknowledgements(self) -> list[bytes]:
        done = self.received.take_handled()
        return [] if self.welcome is None else self._in_messages(protocol.Acknowledge, done)

    def _take_unwatched(self) -> list[bytes]:
        left = self.job_waits.take_left()
        return [] if self.welcome is None else self._in_messages(WatchJobs, left, True)

    def _take_begun(self) -> list[bytes]:
        begun = [self.begun.popleft() for _ in range(len(self.begun))]
        return [] if self._version < BEGIN_VERSION else self._in_messages(Begin, begun)

    def _in_messages(self, request: Any, items: list[Any], *fields: object) -> list[bytes]:
        portions = in_portions(items, self.max_items)
        return [encode(request(next(self._seqs), some, *fields)) for some in portions]
