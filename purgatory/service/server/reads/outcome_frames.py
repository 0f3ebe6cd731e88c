"""Frames of outcomes: what is told of the ends of operations.

Frames are bounded, and made one at a time: the payloads of many outcomes are never all in memory.
Used by the store thread alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.protocol import NOTHING, OutcomeMessage, Outcomes
from purgatory.service.server.commands import OutcomePush
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.store.rows import StoredOperation, StoredOutcome
from purgatory.service.store.store import Store

# A frame of outcomes holds no more than that of them, and has about that many bytes.
MAX_OUTCOMES_PER_FRAME: Final = 256
FRAME_BYTES: Final = 1 << 18
_OUTCOME_BYTES: Final = 200
#: Bytes that one transaction pushes, about; what is beyond is fetched by the connections.
PUSHED_BYTES: Final = 1 << 21
#: Outcomes that are read from the store at once.
PORTION: Final = 32

_NOTHING: Final = Raw(NOTHING)

Ended = tuple[PendingOperation, OutcomeRecord]


def outcome_pushes(store: Store, outcomes: Sequence[Ended]) -> list[OutcomePush]:
    """Encode committed outcomes, for those of their clients that are connected.

    Beyond PUSHED_BYTES the last push of a client has no frame. Raises StoreError.
    """
    by_client: dict[str, list[Ended]] = {}
    for operation, record in outcomes:
        if record.client.connections and not record.is_job:
            by_client.setdefault(record.client.name, []).append((operation, record))
    pushes: list[OutcomePush] = []
    room = PUSHED_BYTES
    for name, ended in by_client.items():
        for first, last, frame in _split_into_frames(_messages(store, ended)):
            if room <= 0:
                pushes.append(OutcomePush(name, first, ended[-1][1].seq, None))
                break
            pushes.append(OutcomePush(name, first, last, frame))
            room -= len(frame)
    return pushes


def _messages(store: Store, ended: list[Ended]) -> Iterator[OutcomeMessage]:
    for start in range(0, len(ended), PORTION):
        portion = ended[start : start + PORTION]
        numbers = [operation.number for operation, _ in portion if operation.has_payload]
        stored = store.by_numbers(numbers) if numbers else {}
        for operation, record in portion:
            row = stored.get(operation.number)
            yield _outcome(operation, record, None if row is None else row.payload)


def first_outcomes(store: Store, records: Sequence[OutcomeRecord]) -> list[OutcomeMessage]:
    """Return a frame's worth of committed outcomes. Raises StoreError.

    The first ones, if the records are in order of their sequence numbers.
    """
    messages: list[OutcomeMessage] = []
    size = 0
    for start in range(0, len(records), PORTION):
        seqs = [record.seq for record in records[start : start + PORTION]]
        for outcome, row in store.outcomes_by_seqs(seqs):
            messages.append(_stored_outcome(outcome, row))
            size += _size(messages[-1])
            if _is_full(len(messages), size):
                return messages
    return messages


def _split_into_frames(outcomes: Iterable[OutcomeMessage]) -> Iterator[tuple[int, int, bytes]]:
    """Yield first number, last number and frame, for frames of bounded size."""
    portion: list[OutcomeMessage] = []
    size = 0
    for outcome in outcomes:
        portion.append(outcome)
        size += _size(outcome)
        if _is_full(len(portion), size):
            yield portion[0].number, portion[-1].number, encode(Outcomes(portion))
            portion = []
            size = 0
    if portion:
        yield portion[0].number, portion[-1].number, encode(Outcomes(portion))


def _size(outcome: OutcomeMessage) -> int:
    return _OUTCOME_BYTES + len(outcome.result) + len(outcome.payload)


def _is_full(count: int, size: int) -> bool:
    return count >= MAX_OUTCOMES_PER_FRAME or size >= FRAME_BYTES


def _raw(value: bytes | None) -> Raw:
    return Raw(value) if value else _NOTHING


def _outcome(
    operation: PendingOperation, record: OutcomeRecord, payload: bytes | None
) -> OutcomeMessage:
    return OutcomeMessage(
        record.seq,
        operation.op_id,
        record.outcome,
        record.at_ms(operation.op_deadline_ms),
        operation.by_key,
        _raw(operation.result()),
        operation.kind,
        operation.submitted_ms,
        operation.op_deadline_ms,
        _raw(payload),
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
