"""RequestHandler: carries out the requests of clients, and makes the frames of replies.

What changes something is done at once, in the open transaction, and answered when that has been
committed; what only reads is answered after that. So no client is told what might be rolled back.

Used by the store thread alone; `refused` may be read by any.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Raw
from msgspec.structs import astuple

from purgatory.service.errors import Refused, TooManyHeld
from purgatory.service.protocol import (
    NOTHING,
    Acknowledge,
    Acknowledged,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    Extend,
    Extended,
    Fail,
    Failed,
    Failure,
    Known,
    OperationStatus,
    OutcomeMessage,
    Outcomes,
    Query,
    Refusal,
    States,
    Stats,
    StatsReply,
    Submit,
    Submitted,
    Unread,
    UnreadOutcomes,
    Welcome,
    encode,
)
from purgatory.service.server.clients import OutcomeRecord
from purgatory.service.server.commands import ClientConnected, ClientRequest, OutcomePush
from purgatory.service.server.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.server.transaction import Transaction
from purgatory.service.server.validation import RequestValidator, SubmissionValues
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import Store, StoredOutcome

# A frame of outcomes holds no more than that of them, and has about that many bytes.
MAX_OUTCOMES_PER_FRAME = 256
FRAME_BYTES = 1 << 18
_OUTCOME_BYTES = 200

_NOTHING: Final = Raw(NOTHING)

#: Requests whose replies are remembered.
KeptRequest = Complete | Fail | Cancel | Extend

#: Route and frame.
Replies = list[tuple[bytes, bytes]]


class RequestHandler:
    """Handles requests with the rules of `validator`.

    `stats` returns what a `Stats` request is answered with; `server` is how the server introduces
    itself in `Welcome`.
    """

    def __init__(
        self,
        state: ServerState,
        store: Store,
        validator: RequestValidator,
        stats: Callable[[], dict[str, Any]],
        server: str,
    ) -> None:
        self._state = state
        self._store = store
        self._validator = validator
        self._stats = stats
        self._server = server
        #: How many requests, or operations of them, were refused.
        self.refused: int = 0

    def handle(self, transaction: Transaction, command: ClientRequest | ClientConnected) -> None:
        """Do what a request changes."""
        if isinstance(command, ClientConnected):
            self._state.clients.record(command.client).connections += 1
            transaction.reads.append(command)
            return
        try:
            self._apply(transaction, command)
        except Refused as refusal:
            self._refuse(transaction, command, refusal)

    def _apply(self, transaction: Transaction, command: ClientRequest) -> None:
        request = command.request
        if isinstance(request, Submit):
            self._reply(transaction, command, self._submit(transaction, command, request))
        elif isinstance(request, KeptRequest):
            self._apply_once(transaction, command, request)
        elif isinstance(request, Acknowledge):
            self._acknowledge(transaction, command, request)
        else:
            transaction.reads.append(command)

    def _acknowledge(
        self, transaction: Transaction, command: ClientRequest, request: Acknowledge
    ) -> None:
        client = self._state.clients.record(command.client)
        before = len(client.unacknowledged)
        self._state.retention.acknowledge(client, request.outcomes, transaction.clock_ms)
        if request.answer:
            reply = Acknowledged(request.seq, before - len(client.unacknowledged))
            transaction.refusals.append((command.route, reply))  # no commit can fail it

    def _reply(self, transaction: Transaction, command: ClientRequest, reply: Any) -> None:
        """Answer a request that changes something, when that is committed."""
        transaction.writes.append(command)
        transaction.replies.append((command.route, reply))

    def _apply_once(
        self, transaction: Transaction, command: ClientRequest, request: KeptRequest
    ) -> None:
        """Do a request, or if it was done before, repeat the reply."""
        session, seq = command.session, request.seq
        if not session:
            self._reply(transaction, command, self._change(transaction, command, request))
            return
        frame = self._state.replies.find(session, seq)
        if frame is None:
            frame = encode(self._change(transaction, command, request))
            transaction.remember(session, seq, frame)
        elif (session, seq) not in transaction.remembered:  # it is on disk
            transaction.refusals.append((command.route, Raw(frame)))
            return
        self._reply(transaction, command, Raw(frame))

    def _change(
        self, transaction: Transaction, command: ClientRequest, request: KeptRequest
    ) -> Any:
        owner = command.client if command.own_only else None
        if isinstance(request, Complete):
            self._check_all(map(self._validator.check_completion, request.completions))
            self._check_held(request)
            return Completed(request.seq, transaction.complete(request.completions))
        if isinstance(request, Extend):
            self._check_all(map(self._validator.check_extension, request.extensions))
            return Extended(request.seq, transaction.extend(request.extensions, owner))
        if isinstance(request, Fail):
            self._check_all(map(self._validator.check_failure, request.failures))
            return Failed(request.seq, transaction.fail(request.failures))
        return Cancelled(request.seq, transaction.cancel(request.op_ids, owner))

    def _check_all(self, refusals: Iterable[Refused | None]) -> None:
        """Raise the first refusal: then nothing of the request is done."""
        for refusal in refusals:
            if refusal is not None:
                raise refusal

    def _check_held(self, request: Complete) -> None:
        """Raise TooManyHeld if there would be too many held events."""
        held = self._state.held
        new = {c.key for c in request.completions if c.hold_ms and c.key not in held.by_key}
        most = self._validator.limits.held
        if new and len(held) + len(new) > most:
            raise TooManyHeld(f"the server holds {len(held)} events; expected at most {most}")

    def _submit(
        self, transaction: Transaction, command: ClientRequest, request: Submit
    ) -> Submitted:
        client = self._state.clients.record(command.client)
        all_known = self._state.known
        refused: list[Refusal] = []
        known: list[Known] = []
        outcomes: list[OutcomeRecord] = []
        total = transaction.total
        for index, submission in enumerate(request.operations):
            values: SubmissionValues = astuple(submission)
            before = all_known.get(values[0])
            if before is not None and before.client is client:
                known.append(Known(index, _state_name(before)))
                if isinstance(before, OutcomeRecord):
                    outcomes.append(before)
                continue
            refusal = self._validator.check_submission(submission, values, client, total, before)
            if refusal is None:
                transaction.submit(client, submission, values)
                total += 1
            else:
                refused.append(Refusal(index, refusal.code, str(refusal)))
        self.refused += len(refused)
        if outcomes:
            transaction.repeated_outcomes.append((command.route, outcomes))
        return Submitted(request.seq, refused, known)

    def _refuse(self, transaction: Transaction, command: ClientRequest, refusal: Refused) -> None:
        self.refused += 1
        failure = Failure(command.request.seq, refusal.code, str(refusal))
        transaction.refusals.append((command.route, failure))

    def replies(self, transaction: Transaction) -> Replies:
        """Encode the replies to a committed transaction's requests. Raises StoreError."""
        found = [(route, encode(reply)) for route, reply in transaction.replies]
        for route, records in transaction.repeated_outcomes:
            found += [(route, encode(Outcomes(portion))) for portion in self._portions(records)]
        return found + self._unconditional_replies(transaction)

    def rejections(self, transaction: Transaction, refusal: Refused) -> Replies:
        """Encode the replies to a transaction that was rolled back: each change is refused."""
        for command in transaction.writes:
            self._refuse(transaction, command, refusal)
        return self._unconditional_replies(transaction)

    def _unconditional_replies(self, transaction: Transaction) -> Replies:
        found = [(route, encode(failure)) for route, failure in transaction.refusals]
        found += [(command.route, encode(self._read(command))) for command in transaction.reads]
        return found

    def _read(self, command: ClientRequest | ClientConnected) -> Any:
        if isinstance(command, ClientConnected):
            return Welcome(command.seq, command.version, self._server, self._validator.limits)
        request = command.request
        if isinstance(request, Query):
            owner = command.client if command.own_only else None
            return States(request.seq, [self._state_of(op_id, owner) for op_id in request.op_ids])
        if isinstance(request, Unread):
            return UnreadOutcomes(request.seq, self._next_outcomes(command.client, request.after))
        assert isinstance(request, Stats)
        return StatsReply(request.seq, self._stats())

    def _state_of(self, op_id: str, owner: str | None) -> OperationStatus:
        entry = self._state.find(op_id, owner)
        if entry is None:
            return OperationStatus(op_id, "unknown")
        if isinstance(entry, OutcomeRecord):
            [(outcome, row)] = self._store.outcomes_by_seqs([entry.seq])
            return _ended_state(outcome, row)
        return _pending_state(entry)

    def pushes(self, transaction: Transaction) -> list[OutcomePush]:
        """Encode a committed transaction's outcomes, for those of their clients that are connected.

        Raises StoreError.
        """
        by_client: dict[str, list[tuple[PendingOperation, OutcomeRecord]]] = {}
        for operation, record in transaction.outcomes:
            if record.client.connections:
                by_client.setdefault(record.client.name, []).append((operation, record))
        pushes = []
        for name, pairs in by_client.items():
            stored = self._store.by_numbers(
                [operation.number for operation, _ in pairs if operation.has_payload]
            )
            payloads = {number: row.payload for number, row in stored.items()}
            outcomes = (_outcome(operation, record, payloads) for operation, record in pairs)
            pushes += [
                OutcomePush(name, portion[0].number, portion[-1].number, encode(Outcomes(portion)))
                for portion in _split(outcomes)
            ]
        return pushes

    def next_outcome_frame(self, client: str, after: int) -> tuple[bytes | None, int]:
        """Return a frame of a client's outcomes beyond `after`, and how far it reaches.

        None: there are no more. Raises StoreError.
        """
        portion = self._next_outcomes(client, after)
        if not portion:
            return None, after
        return encode(Outcomes(portion)), portion[-1].number

    def _next_outcomes(self, client: str, after: int) -> list[OutcomeMessage]:
        """Return a frame's worth of a client's outcomes beyond `after`; none: there are no more."""
        record = self._state.clients.by_name.get(client)
        if record is None:  # it has disconnected meanwhile
            return []
        while seqs := record.seqs_after(after, MAX_OUTCOMES_PER_FRAME):
            unacknowledged = record.unacknowledged
            outcomes = [unacknowledged[seq] for seq in seqs if seq in unacknowledged]
            for portion in self._portions(outcomes):
                return portion
            after = seqs[-1]
        return []

    def _portions(self, records: Sequence[OutcomeRecord]) -> Iterator[list[OutcomeMessage]]:
        for start in range(0, len(records), MAX_OUTCOMES_PER_FRAME):
            portion = records[start : start + MAX_OUTCOMES_PER_FRAME]
            rows = self._store.outcomes_by_seqs([record.seq for record in portion])
            yield from _split(_stored_outcome(outcome, row) for outcome, row in rows)


def _split(outcomes: Iterable[OutcomeMessage]) -> Iterator[list[OutcomeMessage]]:
    """Yield portions of bounded size, one for each frame."""
    portion: list[OutcomeMessage] = []
    size = 0
    for outcome in outcomes:
        portion.append(outcome)
        size += _OUTCOME_BYTES + len(outcome.result) + len(outcome.payload)
        if len(portion) >= MAX_OUTCOMES_PER_FRAME or size >= FRAME_BYTES:
            yield portion
            portion = []
            size = 0
    if portion:
        yield portion


def _raw(value: bytes | None) -> Raw:
    return Raw(value) if value else _NOTHING


def _outcome(
    operation: PendingOperation, record: OutcomeRecord, payloads: dict[int, bytes | None]
) -> OutcomeMessage:
    return OutcomeMessage(
        record.seq,
        operation.op_id,
        record.outcome,
        record.at_ms(operation.due_ms),
        operation.by_key,
        _raw(operation.result()),
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


def _state_name(entry: PendingOperation | OutcomeRecord) -> str:
    return entry.outcome if isinstance(entry, OutcomeRecord) else "pending"


def _pending_state(operation: PendingOperation) -> OperationStatus:
    return OperationStatus(
        operation.op_id,
        "pending",
        operation.kind,
        operation.client.name,
        list(operation.keys),
        operation.need,
        operation.submitted_ms,
        operation.due_ms,
        keys_done=list(operation.values or ()),
    )


def _ended_state(outcome: StoredOutcome, row: StoredOperation) -> OperationStatus:
    return OperationStatus(
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
