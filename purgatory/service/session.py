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

from msgspec import Raw

from purgatory.service import protocol
from purgatory.service.calls import (
    Answered,
    Call,
    CancelCall,
    CompleteCall,
    QueryCall,
    ServiceFuture,
    StatsCall,
    SubmitCall,
)
from purgatory.service.errors import (
    Closing,
    NoHello,
    ServiceError,
    TooLarge,
    TooManyClients,
    refusal,
)
from purgatory.service.protocol import VERSION, Outcome, Outcomes, encode

log = logging.getLogger(__name__)

# Calls of one message, and messages that may be unanswered when the next one is not full.
CALLS_A_MESSAGE: Final = 512
EAGER: Final = 2
# Messages that may be unanswered at all.
UNANSWERED: Final = 32
# Acknowledgements that are remembered: they may be lost with the connection.
REMEMBERED: Final = 1 << 16
# Room for what is around the calls in a message.
_ENVELOPE: Final = 64

_REQUESTS: Final[dict[type, Callable[[int, Any], Any]]] = {
    SubmitCall: protocol.Submit,
    CompleteCall: protocol.Complete,
    CancelCall: protocol.Cancel,
    QueryCall: protocol.Query,
    StatsCall: lambda seq, _: protocol.Stats(seq),
}

#: These pass by themselves: what was asked stays to be asked again.
_TRANSIENT: Final = (NoHello.code, Closing.code, TooManyClients.code)

OnOutcome = Callable[[Outcome], object]


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
        self._waiting: deque[Call] = deque()
        self._unanswered: dict[int, tuple[bytes, Sequence[Call]]] = {}  # in order of seq
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

    @property
    def backlog(self) -> int:
        """How many calls wait to be sent."""
        return len(self._waiting)

    def connected(self) -> bytes:
        """A connection is there: what is to be sent first."""
        self.lost = False
        self.welcome = None
        self._hello = next(self._seqs)
        return encode(protocol.Hello(self._hello, VERSION, self._name))

    def disconnected(self) -> None:
        """The connection is no more."""
        self.welcome = None

    def add(self, call: Call) -> None:
        """Have a call sent."""
        if self.failure is None:
            self._waiting.append(call)
        else:
            _fail([call], self.failure)

    def messages(self) -> list[bytes]:
        """What can be sent now."""
        found: list[bytes] = []
        while self._waiting and self.welcome is not None:
            unanswered = len(self._unanswered)
            if unanswered >= UNANSWERED:
                break
            if unanswered >= EAGER and len(self._waiting) < CALLS_A_MESSAGE:
                break
            calls = self._group()
            if calls:
                seq = next(self._seqs)
                frame = encode(_REQUESTS[type(calls[0])](seq, [Raw(call.raw) for call in calls]))
                self._unanswered[seq] = (frame, calls)
                found.append(frame)
        return found

    def _group(self) -> list[Call]:
        """Take calls of one kind that fit into a message."""
        waiting = self._waiting
        kind = type(waiting[0])
        most = 1 if kind is StatsCall else CALLS_A_MESSAGE
        calls: list[Call] = []
        size = _ENVELOPE
        while waiting and type(waiting[0]) is kind and len(calls) < most:
            size += len(waiting[0].raw)
            if size > self._message_bytes:
                if not calls:
                    error = TooLarge(
                        f"message of {size} bytes; expected at most {self._message_bytes}"
                    )
                    self._give_up([waiting.popleft()], error)
                break
            calls.append(waiting.popleft())
        return calls

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
        _, calls = self._unanswered.pop(message.seq, (b"", ()))
        if not calls:
            return  # asked twice, on two connections
        if isinstance(message, protocol.Submitted):
            self._submitted(calls, message)
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
        for call, answer in zip(calls, answers, strict=True):
            _resolve(call.future, answer)

    def _submitted(self, calls: Sequence[Call], message: protocol.Submitted) -> None:
        refused = {item.index: item for item in message.refused}
        for index, call in enumerate(calls):
            item = refused.get(index)
            if item is None:
                assert isinstance(call, SubmitCall)
                call.future.acknowledged = True
            else:
                self._give_up([call], refusal(item.code, item.words))

    def _fail(self, message: protocol.Failure) -> None:
        error = refusal(message.code, message.words)
        if message.code in _TRANSIENT:
            self.lost = True
        elif message.seq == self._hello:
            self.fail(error)
        elif message.seq in self._unanswered:
            self._give_up(self._unanswered.pop(message.seq)[1], error)
        else:
            log.warning("the server says: %s", error)

    def _give_up(self, calls: Sequence[Call], error: ServiceError) -> None:
        for call in calls:
            if isinstance(call, SubmitCall):
                self._futures.pop(call.future.op_id, None)
        _fail(calls, error)

    def fail(self, error: ServiceError) -> None:
        """No call will be answered any more, and no operation's end be told."""
        self.failure = error
        calls = [call for _, some in self._unanswered.values() for call in some]
        calls += self._waiting
        self._unanswered.clear()
        self._waiting.clear()
        self._give_up(calls, error)
        while self._futures:
            _, future = self._futures.popitem()
            _reject(future, error)

    def _end(self, outcomes: Sequence[Outcome]) -> list[bytes]:
        """Resolve futures; returns the acknowledgement of what need not come again."""
        done = [outcome.number for outcome in outcomes if self._end_one(outcome)]
        if not done:
            return []
        for number in done:
            self._resolved[number] = None
        while len(self._resolved) > REMEMBERED:
            del self._resolved[next(iter(self._resolved))]
        return [encode(protocol.Acknowledge(next(self._seqs), done))]

    def _end_one(self, outcome: Outcome) -> bool:
        if outcome.number in self._resolved:
            return True
        future = self._futures.pop(outcome.op_id, None)
        if future is not None:
            future.acknowledged = True
            if not future.done():
                future.end(outcome)
            return True
        if self._on_outcome is None:
            return False  # somebody of our name may ask for it
        try:
            self._on_outcome(outcome)
        except Exception:
            log.exception("on_outcome of client %r raised", self._name)
            return False
        return True


def _resolve(future: Answered, answer: object) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(answer)


def _reject(future: Answered, error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _fail(calls: Sequence[Call], error: ServiceError) -> None:
    for call in calls:
        _reject(call.future, error)
