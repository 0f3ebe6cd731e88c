"""Session: a client's side of the protocol, without sockets, threads or clocks.

Calls go in and are grouped into messages; messages of the server go in and resolve futures; what is
to be sent comes out. What was not answered is sent again on a new connection. Used by the link's
thread alone, save that any thread may register a future before its call gets here.

Few calls go out at once; when earlier ones are unanswered, the next gather to a larger message.
"""

import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from purgatory.core.future import FINISHED, PENDING
from purgatory.service import protocol
from purgatory.service.client.batcher import CALLS_A_MESSAGE, Call, Request
from purgatory.service.client.futures import Answered, ServiceFuture
from purgatory.service.errors import (
    HelloRequired,
    ServerClosing,
    ServiceError,
    TooLarge,
    TooManyClients,
    error_for,
)
from purgatory.service.protocol import VERSION, OutcomeMessage, Outcomes, Stats, Submit, encode
from timingwheel.lowlevel import ATOMIC_SECTIONS

log = logging.getLogger(__name__)

# Messages that may be unanswered when the next one is not full.
EAGER: Final = 2
# Messages that may be unanswered at all.
UNANSWERED: Final = 32
# Acknowledgements that are remembered: they may be lost with the connection.
REMEMBERED: Final = 1 << 16

#: These pass by themselves: what was asked stays to be asked again.
_TRANSIENT: Final = (HelloRequired.code, ServerClosing.code, TooManyClients.code)

OnOutcome = Callable[[OutcomeMessage], object]


class Session:
    """``name``: the client's. ``futures``: op id -> future, of operations not ended.

    ``on_outcome``: told of outcomes that have no future here.
    """

    def __init__(
        self, name: str, futures: dict[str, ServiceFuture], on_outcome: OnOutcome | None
    ) -> None:
        self._name = name
        self._futures = futures
        self._on_outcome = on_outcome
        self._seqs = itertools.count(1)
        self._hello = 0  # seq of the last one
        self._waiting: deque[_Group] = deque()  # in order, and full where the kind does not change
        self._unanswered: dict[int, tuple[bytes, _Group]] = {}  # in order of seq
        #: Calls that wait to be sent, and those that were sent or given up.
        self.backlog = 0
        self.gone = 0
        self._message_bytes = 0
        self._resolved: dict[int, None] = {}  # outcomes acknowledged lately
        self.welcome: protocol.Welcome | None = None  # of this connection
        #: Why the server will not have us, ever.
        self.failure: ServiceError | None = None
        #: Set when the connection is of no more use.
        self.lost = False

    @property
    def busy(self) -> bool:
        """Whether calls are unanswered."""
        return bool(self._waiting or self._unanswered)

    def connected(self) -> bytes:
        """A connection is there: what is to be sent first."""
        self.lost = False
        self.welcome = None
        self._hello = next(self._seqs)
        return encode(protocol.Hello(self._hello, VERSION, self._name))

    def disconnected(self) -> None:
        """The connection is no more."""
        self.welcome = None

    def add(self, request: Request, calls: Sequence[Call]) -> None:
        """Have calls of a kind sent."""
        if self.failure is not None:
            self.gone += len(calls)
            _fail(calls, self.failure)
            return
        self.backlog += len(calls)
        most = 1 if request is Stats else CALLS_A_MESSAGE
        start = 0
        if self._waiting and self._waiting[-1].request is request:
            last = self._waiting[-1].calls
            start = most - len(last)
            last += calls[:start]
        for first in range(start, len(calls), most):
            self._waiting.append(_Group(request, list(calls[first : first + most])))

    def messages(self) -> list[bytes]:
        """What can be sent now."""
        found: list[bytes] = []
        while self._waiting and self.welcome is not None:
            unanswered = len(self._unanswered)
            if unanswered >= UNANSWERED:
                break
            if unanswered >= EAGER and self.backlog < CALLS_A_MESSAGE:
                break
            frame = self._next_message()
            if frame is not None:
                found.append(frame)
        return found

    def _next_message(self) -> bytes | None:
        """Take the first calls that fit into a message; None: the first one does not."""
        group = self._waiting.popleft()
        seq = next(self._seqs)
        while len(frame := group.message(seq)) > self._message_bytes and len(group.calls) > 1:
            half = len(group.calls) // 2
            self._waiting.appendleft(_Group(group.request, group.calls[half:]))
            group = _Group(group.request, group.calls[:half])
        self._leave(len(group.calls))
        if len(frame) > self._message_bytes:
            words = f"message of {len(frame)} bytes; expected at most {self._message_bytes}"
            self._give_up(group, TooLarge(words))
            return None
        self._unanswered[seq] = (frame, group)
        return frame

    def _leave(self, count: int) -> None:
        self.backlog -= count
        self.gone += count

    def receive(self, frame: bytes) -> list[bytes]:
        """Take a message of the server; returns what is to be sent at once."""
        message = protocol.decode_answer(frame)
        if isinstance(message, Outcomes):
            return self._end(message.outcomes)
        if isinstance(message, protocol.Welcome):
            self.welcome = message
            self._message_bytes = message.limits.message_bytes
            return [frame for frame, _ in self._unanswered.values()]
        if isinstance(message, protocol.Failure):
            self._fail(message)
        elif not isinstance(message, protocol.Ping):
            self._answered(message)
        return []

    def _answered(self, message: Any) -> None:
        _, group = self._unanswered.pop(message.seq, (b"", None))
        if group is None:
            return  # asked twice, on two connections
        if isinstance(message, protocol.Submitted):
            self._submitted(group, message)
            return
        answers: Sequence[Any]
        if isinstance(message, protocol.Completed):
            answers = message.counts
        elif isinstance(message, protocol.Cancelled):
            answers = message.done
        elif isinstance(message, protocol.States):
            answers = message.states
        else:
            answers = [message.figures]
        for (_, future), item in zip(group.calls, answers, strict=True):
            answer(future, item)

    def _submitted(self, group: "_Group", message: protocol.Submitted) -> None:
        refused = {item.index: item for item in message.refused}
        for index, (submission, future) in enumerate(group.calls):
            if refused and (item := refused.get(index)) is not None:
                self._futures.pop(submission.op_id, None)
                _reject(future, error_for(item.code, item.message))
            else:
                future.acknowledged = True  # type: ignore[attr-defined]  # a ServiceFuture

    def _fail(self, message: protocol.Failure) -> None:
        error = error_for(message.code, message.message)
        if message.code in _TRANSIENT:
            self.lost = True
        elif message.seq == self._hello:
            self.fail(error)
        elif message.seq in self._unanswered:
            self._give_up(self._unanswered.pop(message.seq)[1], error)
        else:
            log.warning("the server says: %s", error)

    def _give_up(self, group: "_Group", error: ServiceError) -> None:
        if group.request is Submit:
            for submission, _ in group.calls:
                self._futures.pop(submission.op_id, None)
        _fail(group.calls, error)

    def fail(self, error: ServiceError) -> None:
        """No call will be answered any more, and no operation's end be told."""
        self.failure = error
        groups = [group for _, group in self._unanswered.values()]
        groups += self._waiting
        self._unanswered.clear()
        self._waiting.clear()
        self._leave(self.backlog)
        for group in groups:
            self._give_up(group, error)
        while self._futures:
            _, future = self._futures.popitem()
            _reject(future, error)

    def _end(self, outcomes: Sequence[OutcomeMessage]) -> list[bytes]:
        """Resolve futures; returns the acknowledgement of what need not come again."""
        done = [outcome.number for outcome in outcomes if self._end_one(outcome)]
        if not done:
            return []
        for number in done:
            self._resolved[number] = None
        while len(self._resolved) > REMEMBERED:
            del self._resolved[next(iter(self._resolved))]
        return [encode(protocol.Acknowledge(next(self._seqs), done))]

    def _end_one(self, outcome: OutcomeMessage) -> bool:
        if outcome.number in self._resolved:
            return True
        future = self._futures.pop(outcome.op_id, None)
        if future is not None:
            future.acknowledged = True
            if future._state == PENDING:
                _end_future(future, outcome)
            return True
        if self._on_outcome is None:
            return False  # somebody of our name may ask for it
        try:
            self._on_outcome(outcome)
        except Exception:
            log.exception("on_outcome of client %r raised", self._name)
            return False
        return True


class _Group:
    """Calls of one kind, as many as a message may have."""

    __slots__ = ("calls", "request")

    def __init__(self, request: Request, calls: list[Call]) -> None:
        self.request = request
        self.calls = calls

    def message(self, seq: int) -> bytes:
        """The frame that asks all of it."""
        if self.request is Stats:
            return encode(Stats(seq))
        items = [item for item, _ in self.calls]
        return encode(self.request(seq, items))  # type: ignore[call-arg]  # not `Stats`


def answer(future: Answered, result: object) -> None:
    """Give a future its result, unless it was cancelled."""
    if ATOMIC_SECTIONS and not future._shared and future._state == PENDING:
        # One step. Nobody looks at it, and who begins to look from now on finds it done.
        future._result = result
        future._state = FINISHED
    elif future.set_running_or_notify_cancel():
        future.set_result(result)


def _end_future(future: ServiceFuture, outcome: OutcomeMessage) -> None:
    if outcome.outcome != "completed":
        future.end(outcome)
        return
    try:
        result = protocol.unpack(outcome.result)
    except ServiceError as error:
        future.set_exception(error)
    else:
        answer(future, result)


def _reject(future: Answered, error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _fail(calls: Sequence[Call], error: ServiceError) -> None:
    for _, future in calls:
        _reject(future, error)
