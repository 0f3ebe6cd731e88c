"""Outcomes from the server: for the futures of their operations, or for `on_outcome`.

`ReceivedOutcomes` is used by the thread with the `Turn`. `OutcomeHandler` calls `on_outcome` in the
I/O thread; any thread may resolve a future that `on_outcome` has returned. See `Client`.
"""

import concurrent.futures
import contextvars
import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from purgatory.service.client.backoff import backoff_s
from purgatory.service.client.calls import resolve_outcome
from purgatory.service.client.functions import refuse_unfinished
from purgatory.service.client.futures import ServiceFuture
from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.encoding import unpack_values
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.protocol import OutcomeMessage

log: logging.Logger = logging.getLogger(__name__)

#: Most calls for an outcome on a connection.
ATTEMPTS: int = 10
# See `backoff_s`.
FIRST_DELAY_S: float = 0.2
MAX_DELAY_S: float = 30.0
# Most outcomes that wait for another call; others stay at the server.
MAX_WAITING: int = 10_000
# An acknowledgement may be lost with the connection.
REMEMBERED_ACKNOWLEDGEMENTS: Final = 1 << 16

OnOutcome = Callable[[OutcomeMessage], object]
#: `on_outcome` returns this to leave an outcome at the server.
LEAVE: Final = object()


@dataclass(slots=True)
class OutcomeHandled:
    """Acknowledge an outcome or, after an error, plan another call."""

    outcome: OutcomeMessage
    error: BaseException | None


def _identity(outcome: OutcomeMessage) -> int:
    """Name an outcome. A restored server gives numbers again."""
    return hash((outcome.number, outcome.op_id, outcome.at_ms))


class _Delivery:
    __slots__ = ("attempts", "context", "outcome")

    def __init__(self, outcome: OutcomeMessage) -> None:
        self.outcome = outcome
        self.attempts = 0
        # The context of the first call, with its trace.
        self.context = contextvars.copy_context()


class OutcomeHandler:
    """Hands outcomes of the client `name` to `call`."""

    def __init__(self, call: OnOutcome, name: str, platform: Platform = REAL_PLATFORM) -> None:
        self._call = call
        self._platform = platform
        self._name = name
        self._deliveries: dict[int, _Delivery] = {}  # by identity of the outcome
        self._retries: list[tuple[float, int]] = []  # a heap: when, and identity
        #: Sends the I/O thread a command; set by `ClientIOThread`.
        self.post: Callable[[OutcomeHandled], None] = lambda _: None

    def handle(self, outcome: OutcomeMessage) -> bool:
        """Call with an outcome; True: handled. Else see `finish` and `retry`."""
        identity = _identity(outcome)
        if identity in self._deliveries:
            return False  # sent once more, on a new connection
        delivery = self._deliveries[identity] = _Delivery(outcome)
        return self._run(delivery)

    def _run(self, delivery: _Delivery) -> bool:
        delivery.attempts += 1
        outcome = delivery.outcome
        try:
            result = delivery.context.run(self._call, outcome)
            if isinstance(result, concurrent.futures.Future):
                result.add_done_callback(lambda future: self._report(outcome, future))
                return False
            if result is LEAVE:
                del self._deliveries[_identity(outcome)]
                return False
            refuse_unfinished("on_outcome", result)
        except BaseException as error:  # noqa: BLE001  # of the program's function, SystemExit too
            self._fail(delivery, error)
            return False
        del self._deliveries[_identity(outcome)]
        return True

    def _report(self, outcome: OutcomeMessage, future: "concurrent.futures.Future[Any]") -> None:
        error: BaseException | None
        try:
            error = future.exception()
            if error is None:
                refuse_unfinished("the future of on_outcome", future.result())
        except BaseException as raised:  # noqa: BLE001  # it is cancelled, or a class of its own
            error = raised
        self.post(OutcomeHandled(outcome, error))

    def finish(self, handled: OutcomeHandled) -> bool:
        """Note the end of a future's call; True: handled."""
        identity = _identity(handled.outcome)
        delivery = self._deliveries.get(identity)
        if delivery is None:
            return False
        if handled.error is not None:
            self._fail(delivery, handled.error)
            return False
        del self._deliveries[identity]
        return True

    def _fail(self, delivery: _Delivery, error: BaseException) -> None:
        outcome = delivery.outcome
        if delivery.attempts >= ATTEMPTS or len(self._retries) >= MAX_WAITING:
            del self._deliveries[_identity(outcome)]
            log.error("on_outcome of client %r raised for %r, call %d of %d; its outcome is left "
                      "at the server until the next connection",
                      self._name, outcome.op_id, delivery.attempts, ATTEMPTS,
                      exc_info=error)  # fmt: skip
            return
        delay = backoff_s(delivery.attempts, FIRST_DELAY_S, MAX_DELAY_S, self._platform.uniform)
        heapq.heappush(self._retries, (self._platform.monotonic() + delay, _identity(outcome)))
        log.warning("on_outcome of client %r raised for %r, call %d of %d; the next in %.1f s",
                    self._name, outcome.op_id, delivery.attempts, ATTEMPTS, delay,
                    exc_info=error)  # fmt: skip

    @property
    def next_retry_at(self) -> float | None:
        """When the next call is planned."""
        return self._retries[0][0] if self._retries else None

    def retry(self, now: float) -> list[OutcomeMessage]:
        """Make the due calls; return the handled outcomes."""
        handled: list[OutcomeMessage] = []
        while self._retries and self._retries[0][0] <= now:
            # One by one: the others wait on if a log handler raises.
            delivery = self._deliveries[heapq.heappop(self._retries)[1]]
            if self._run(delivery):
                handled.append(delivery.outcome)
        return handled


class ReceivedOutcomes:
    """The outcomes for `futures`, by operation id, and for `handler`."""

    def __init__(
        self,
        futures: dict[str, ServiceFuture],
        handler: OutcomeHandler | None,
        tracer: OperationTracer | None,
    ) -> None:
        self._futures = futures
        self._handler = handler
        self._tracer = tracer
        # Identities, the latest last. (A dict finds its first entry by a scan.)
        self._acknowledged: OrderedDict[int, None] = OrderedDict()
        #: Numbers to acknowledge with the next messages.
        self.handled: list[int] = []
        #: Called in the I/O thread when unhandled outcomes have come.
        self.on_left: Callable[[], object] | None = None

    def resolve(self, outcomes: Sequence[OutcomeMessage], take: bool) -> None:
        """Resolve futures; call the handler with other outcomes if `take`."""
        handled = [each for each in outcomes if self._resolve_one(each, take)]
        self._note_handled(handled)
        if self.on_left is not None and len(handled) < len(outcomes):
            self.on_left()

    def _resolve_one(self, outcome: OutcomeMessage, take: bool) -> bool:
        if outcome.op_id not in self._futures and _identity(outcome) in self._acknowledged:
            return True  # unless a new future waits for the outcome
        if len(outcome.payload) > 1:
            traceparent, outcome.payload = unwrap(outcome.payload)
            if traceparent and self._tracer is not None and self._is_for_us(outcome, take):
                return self._deliver_traced(self._tracer, outcome, traceparent, take)
        return self._deliver(outcome, take)

    def _deliver_traced(
        self, tracer: OperationTracer, outcome: OutcomeMessage, traceparent: str, take: bool
    ) -> bool:
        handled: bool | None = None
        try:
            with tracer.ended(outcome, traceparent):
                handled = self._deliver(outcome, take)
        except BaseException:
            log.exception("the tracer raised for %r", outcome.op_id)
        return self._deliver(outcome, take) if handled is None else handled

    def _is_for_us(self, outcome: OutcomeMessage, take: bool) -> bool:
        return outcome.op_id in self._futures or (take and self._handler is not None)

    def _deliver(self, outcome: OutcomeMessage, take: bool) -> bool:
        future = self._futures.pop(outcome.op_id, None)
        if future is not None:
            future.acknowledged = True
            resolve_outcome(future, outcome)
            return True
        if self._handler is None or not take:
            return False  # another client of this name may take the outcome
        unpack_values(outcome)
        return self._handler.handle(outcome)

    def retry(self, now: float) -> None:
        """Make the handler's due calls again."""
        if self._handler is not None:
            self._note_handled(self._handler.retry(now))

    def finish(self, handled: OutcomeHandled) -> None:
        """See `OutcomeHandler.finish`."""
        if self._handler is not None and self._handler.finish(handled):
            self._note_handled([handled.outcome])

    def _note_handled(self, outcomes: list[OutcomeMessage]) -> None:
        """Have outcomes acknowledged, now or when they come again."""
        for outcome in outcomes:
            self.handled.append(outcome.number)
            self._acknowledged[_identity(outcome)] = None
        while len(self._acknowledged) > REMEMBERED_ACKNOWLEDGEMENTS:
            self._acknowledged.popitem(last=False)

    def take_handled(self) -> list[int]:
        """Remove and return the numbers to acknowledge."""
        handled, self.handled = self.handled, []
        return handled
