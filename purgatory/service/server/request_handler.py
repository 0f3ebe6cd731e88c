"""Requests in, answers out, between the room and the threads. The store thread alone.

What changes something is done at once and answered when it is committed; what only asks is answered
after that. So nobody is told what might still be undone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Raw

from purgatory.service.errors import Refused
from purgatory.service.protocol import (
    NOTHING,
    VERSION,
    Acknowledge,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Failure,
    OperationState,
    OutcomeMessage,
    Outcomes,
    Query,
    States,
    Stats,
    StatsReply,
    Submit,
    Submitted,
    Welcome,
    encode,
)
from purgatory.service.server.commands import ClientConnected, ClientRequest, OutcomePush
from purgatory.service.server.operation import OutcomeRecord, PendingOperation
from purgatory.service.server.state import ServerState, result_of
from purgatory.service.server.transaction import Transaction
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import Store, StoredOutcome

# A frame of outcomes has no more than that of them, and is about that large.
MAX_OUTCOMES_PER_FRAME = 256
FRAME_BYTES = 1 << 18
_OUTCOME_BYTES = 200

_NOTHING: Final = Raw(NOTHING)

Replies = list[tuple[bytes, bytes]]


class RequestHandler:
    """``figures``: what `Stats` is answered with. ``server``: the words of `Welcome` about us."""

    def __init__(
        self, state: ServerState, store: Store, figures: Callable[[], dict[str, Any]], server: str
    ) -> None:
        self._state = state
        self._store = store
        self._figures = figures
        self._server = server
        self.refused = 0
        self._replies: list[tuple[bytes, Any]] = []  # of this turn
        self._repeated_outcomes: list[
            tuple[bytes, list[OutcomeRecord]]
        ] = []  # ends that were asked for by a submit
        self._reads: list[ClientRequest | ClientConnected] = []  # for after the commit
        self._writes: list[ClientRequest] = []  # by whom, if the turn has to be undone

    def handle(self, asked: ClientRequest | ClientConnected) -> None:
        """Do what a request changes."""
        if isinstance(asked, ClientConnected):
            self._state.client(asked.client).connections += 1
            self._reads.append(asked)
            return
        try:
            self._apply(asked)
        except Refused as refusal:
            self._refuse(asked, refusal)

    def _apply(self, asked: ClientRequest) -> None:
        state = self._state
        request = asked.request
        answer: Any
        if isinstance(request, Submit):
            refused, known, ended = state.submit(state.client(asked.client), request.operations)
            self.refused += len(refused)
            answer = Submitted(request.seq, refused, known)
            if ended:
                self._repeated_outcomes.append((asked.route, ended))
        elif isinstance(request, Complete):
            for completion in request.completions:
                _raise(state.validator.completion(completion))
            answer = Completed(request.seq, state.complete(request.completions))
        elif isinstance(request, Cancel):
            answer = Cancelled(request.seq, state.cancel(request.op_ids))
        elif isinstance(request, Acknowledge):
            state.acknowledge(state.client(asked.client), request.outcomes)
            return
        else:
            self._reads.append(asked)
            return
        self._writes.append(asked)
        self._replies.append((asked.route, answer))

    def _refuse(self, asked: ClientRequest, refusal: Refused) -> None:
        self.refused += 1
        failure = Failure(asked.request.seq, refusal.code, str(refusal))
        self._replies.append((asked.route, failure))

    def reject_all(self, refusal: Refused) -> None:
        """Answer all that was to change something with a refusal: the turn was undone."""
        self._replies = []
        self._repeated_outcomes = []
        for asked in self._writes:
            self._refuse(asked, refusal)

    def replies(self) -> Replies:
        """What the turn is answered with, once it is committed or undone. Raises StoreError."""
        found = [(route, encode(answer)) for route, answer in self._replies]
        for route, ended in self._repeated_outcomes:
            found += ((route, frame) for _, _, frame in self._frames(ended))
        for asked in self._reads:
            found.append((asked.route, encode(self._answer(asked))))
        self._replies, self._repeated_outcomes, self._reads, self._writes = [], [], [], []
        return found

    def _answer(self, asked: ClientRequest | ClientConnected) -> Any:
        if isinstance(asked, ClientConnected):
            return Welcome(asked.seq, VERSION, self._server, self._state.validator.limits)
        request = asked.request
        if isinstance(request, Query):
            return States(request.seq, [self._state_of(op_id) for op_id in request.op_ids])
        assert isinstance(request, Stats)
        return StatsReply(request.seq, self._figures())

    def _state_of(self, op_id: str) -> OperationState:
        entry = self._state.known.get(op_id)
        if entry is None:
            return OperationState(op_id, "unknown")
        if isinstance(entry, OutcomeRecord):
            [(outcome, row)] = self._store.ended([entry.seq])
            return _ended_state(outcome, row)
        return OperationState(
            op_id,
            "pending",
            entry.kind,
            entry.client.name,
            list(entry.keys),
            entry.need,
            entry.submitted_ms,
            entry.due_ms,
            keys_done=list(entry.values or ()),
        )

    def pushes(self, transaction: Transaction) -> list[OutcomePush]:
        """The outcomes of a committed turn, for those of their clients that are there."""
        of_client: dict[str, list[tuple[PendingOperation, OutcomeRecord]]] = {}
        for operation, ended in transaction.ended:
            if ended.client.connections:
                of_client.setdefault(ended.client.name, []).append((operation, ended))
        found = []
        for name, pairs in of_client.items():
            stored = self._store.by_numbers(
                [operation.number for operation, _ in pairs if operation.has_payload]
            )
            payloads = {number: row.payload for number, row in stored.items()}
            outcomes = (_outcome(operation, ended, payloads) for operation, ended in pairs)
            found += [
                OutcomePush(name, first, last, frame)
                for first, last, frame in _split_into_frames(outcomes)
            ]
        return found

    def next_outcome_frame(self, client: str, after: int) -> tuple[bytes | None, int]:
        """A frame of a client's outcomes beyond ``after``, and how far it reaches."""
        record = self._state.clients.get(client)
        if record is None:  # it has gone again
            return None, after
        while seqs := record.after(after, MAX_OUTCOMES_PER_FRAME):
            ends = [record.unacknowledged[seq] for seq in seqs if seq in record.unacknowledged]
            for _, last, frame in self._frames(ends):
                return frame, last
            after = seqs[-1]
        return None, after

    def _frames(self, ends: Sequence[OutcomeRecord]) -> Iterator[tuple[int, int, bytes]]:
        for start in range(0, len(ends), MAX_OUTCOMES_PER_FRAME):
            rows = self._store.ended(
                [end.seq for end in ends[start : start + MAX_OUTCOMES_PER_FRAME]]
            )
            yield from _split_into_frames(_stored_outcome(outcome, row) for outcome, row in rows)


def _split_into_frames(outcomes: Iterable[OutcomeMessage]) -> Iterator[tuple[int, int, bytes]]:
    """Frames of bounded size: number of the first outcome, of the last, and the frame."""
    some: list[OutcomeMessage] = []
    size = 0
    for outcome in outcomes:
        some.append(outcome)
        size += _OUTCOME_BYTES + len(outcome.result) + len(outcome.payload)
        if len(some) >= MAX_OUTCOMES_PER_FRAME or size >= FRAME_BYTES:
            yield some[0].number, some[-1].number, encode(Outcomes(some))
            some = []
            size = 0
    if some:
        yield some[0].number, some[-1].number, encode(Outcomes(some))


def _raw(value: bytes | None) -> Raw:
    return Raw(value) if value else _NOTHING


def _outcome(
    operation: PendingOperation, ended: OutcomeRecord, payloads: dict[int, bytes | None]
) -> OutcomeMessage:
    return OutcomeMessage(
        ended.seq,
        operation.op_id,
        ended.outcome,
        ended.at_ms(operation),
        operation.by_key,
        _raw(result_of(operation)),
        operation.kind,
        operation.submitted_ms,
        operation.due_ms,
        _raw(payloads.get(operation.number)) if operation.has_payload else _NOTHING,
    )


def _stored_outcome(outcome: StoredOutcome, row: StoredOperation) -> OutcomeMessage:
    return OutcomeMessage(
        outcome.seq,
        row.op_id,
        outcome.outcome,
        outcome.at_ms,
        outcome.by_key,
        _raw(outcome.result),
        row.kind,
        row.submitted_ms,
        row.deadline_ms,
        _raw(row.payload),
    )


def _ended_state(outcome: StoredOutcome, row: StoredOperation) -> OperationState:
    return OperationState(
        row.op_id,
        outcome.outcome,
        row.kind,
        row.client,
        list(row.keys),
        row.need,
        row.submitted_ms,
        row.deadline_ms,
        outcome.at_ms,
        outcome.by_key,
    )


def _raise(refusal: Refused | None) -> None:
    if refusal is not None:
        raise refusal
