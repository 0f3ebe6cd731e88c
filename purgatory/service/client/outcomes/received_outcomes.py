"""ReceivedOutcomes: outcomes that the server sends, and which of them are to be acknowledged.

An outcome resolves the future of its operation, or is for the client's handler. Used by the thread
that has the `Turn`, as `Session` is.
"""

from collections.abc import Sequence
from typing import Final

from purgatory.service import protocol
from purgatory.service.client.future_results import resolve_outcome
from purgatory.service.client.futures import ServiceFuture
from purgatory.service.client.outcomes.outcome_handler import OutcomeHandled, OutcomeHandler
from purgatory.service.client.trace_context import OperationTracer, unwrap
from purgatory.service.protocol import OutcomeMessage

# Outcomes remembered as acknowledged: an acknowledgement may be lost with the connection.
REMEMBERED_ACKNOWLEDGEMENTS: Final = 1 << 16


class ReceivedOutcomes:
    """The outcomes for `futures`, by operation id, and for `handler`, if there is one."""

    def __init__(
        self,
        futures: dict[str, ServiceFuture],
        handler: OutcomeHandler | None,
        tracer: OperationTracer | None,
    ) -> None:
        self._futures = futures
        self._handler = handler
        self._tracer = tracer
        self._acknowledged: dict[int, None] = {}  # numbers of outcomes, the latest last
        #: Numbers to acknowledge with the next messages.
        self.handled: list[int] = []

    def resolve(self, outcomes: Sequence[OutcomeMessage], take: bool) -> None:
        """Resolve futures and call the handler.

        `take`: whether outcomes without a future are for this connection.
        """
        self._note_handled([each.number for each in outcomes if self._resolve_one(each, take)])

    def _resolve_one(self, outcome: OutcomeMessage, take: bool) -> bool:
        """Resolve the outcome's future; returns whether the outcome is to be acknowledged."""
        if outcome.number in self._acknowledged and outcome.op_id not in self._futures:
            return True  # a future that was made since then waits for it
        if len(outcome.payload) > 1:
            traceparent, outcome.payload = unwrap(outcome.payload)
            if traceparent and self._tracer is not None and self._is_for_us(outcome, take):
                with self._tracer.ended(outcome, traceparent):
                    return self._deliver(outcome, take)
        return self._deliver(outcome, take)

    def _is_for_us(self, outcome: OutcomeMessage, take: bool) -> bool:
        return outcome.op_id in self._futures or (take and self._handler is not None)

    def _deliver(self, outcome: OutcomeMessage, take: bool) -> bool:
        future = self._futures.pop(outcome.op_id, None)
        if future is not None:
            future.acknowledged = True
            resolve_outcome(future, outcome)
            return True
        if self._handler is None or not take:
            return False  # another client of this name may take it
        protocol.unpack_values(outcome)
        return self._handler.handle(outcome)

    @property
    def next_retry_at(self) -> float | None:
        """When `retry` has something to do, by the monotonic clock; None: not yet."""
        return None if self._handler is None else self._handler.next_retry_at

    def retry(self, now: float) -> None:
        """Hand outcomes over again for which the handler has raised, if it is time."""
        if self._handler is not None and self._handler.next_retry_at is not None:
            self._note_handled(self._handler.retry(now))

    def finish(self, handled: OutcomeHandled) -> None:
        """Have an outcome acknowledged for which the handler returned a future, if that says so."""
        if self._handler is not None and self._handler.finish(handled):
            self._note_handled([handled.number])

    def _note_handled(self, numbers: list[int]) -> None:
        """Have outcomes acknowledged now or, without a connection, when they come again."""
        self.handled += numbers
        for number in numbers:
            self._acknowledged[number] = None
        while len(self._acknowledged) > REMEMBERED_ACKNOWLEDGEMENTS:
            del self._acknowledged[next(iter(self._acknowledged))]

    def take_handled(self) -> list[int]:
        """Return the numbers to acknowledge, and forget them."""
        handled, self.handled = self.handled, []
        return handled
