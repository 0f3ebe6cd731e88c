"""Frames of outcomes, bounded and made one at a time: payloads may be large.

Store thread alone.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.errors import refusal_of
from purgatory.service.protocol import NOTHING, OutcomeMessage, Outcomes
from purgatory.service.server.commands import OutcomePush
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import Ended
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import StoredOperation, StoredOutcome

log: logging.Logger = logging.getLogger(__name__)

# Most outcomes or jobs of a frame, and about how many bytes.
MAX_OUTCOMES_PER_FRAME: Final = 256
FRAME_BYTES: Final = 1 << 18
_OUTCOME_BYTES: Final = 200
#: A transaction pushes about so many bytes; connections fetch the rest.
PUSHED_BYTES: Final = 1 << 21
#: Outcomes read from the store at once.
PORTION: Final = 32

_NOTHING: Final = Raw(NOTHING)
T = TypeVar("T")


def outcome_pushes(store: Store, outcomes: Sequence[Ended]) -> list[OutcomePush]:
    """Encode committed outcomes for connected clients.

    Beyond PUSHED_BYTES, or if outcomes cannot be read, a client's last push has no frame. Raises
    StoreError for damage.
    """
    by_client: dict[str, list[Ended]] = {}
    for one in outcomes:
        client = one[1].client
        if client.connections and not one[1].is_job:
            by_client.setdefault(client.name, []).append(one)
    pushes: list[OutcomePush] = []
    room = PUSHED_BYTES
    for name, ended in by_client.items():
        first, last = ended[0][1].seq, ended[-1][1].seq
        try:
            for portion in in_frames(_messages(store, ended), _size):
                if room <= 0:
                    break
                frame = encode(Outcomes(portion))
                pushes.append(OutcomePush(name, first, portion[-1].number, frame))
                first = portion[-1].number + 1
                room -= len(frame)
        except Exception as error:
            refusal_of(error)  # raises it if the store is damaged
            log.exception("outcomes of client %r cannot be read", name)
        if first <= last:
            pushes.append(OutcomePush(name, first, last, None))
    return pushes


def _messages(store: Store, ended: list[Ended]) -> Iterator[OutcomeMessage]:
    for start in range(0, len(ended), PORTION):
        portion = ended[start : start + PORTION]
        numbers = [one[0].number for one in portion if one[0].has_payload]
        stored = store.by_numbers(numbers) if numbers else {}
        for one in portion:
            row = stored.get(one[0].number)
            yield _outcome(one, None if row is None else row.payload)


def first_outcomes(
    store: Store, records: Sequence[OutcomeRecord]
) -> Generator[None, None, list[OutcomeMessage]]:
    """Return a first frame of outcomes; yields between portions. Raises StoreError."""
    messages: list[OutcomeMessage] = []
    size = 0
    for start in range(0, len(records), PORTION):
        if start:
            yield None
        seqs = [record.seq for record in records[start : start + PORTION]]
        for outcome, row in store.outcomes_by_seqs(seqs):
            messages.append(_stored_outcome(outcome, row))
            size += _size(messages[-1])
            if _is_full(len(messages), size):
                return messages
    return messages


def in_frames(messages: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the messages by frame."""
    portion: list[T] = []
    size = 0
    for message in messages:
        portion.append(message)
        size += size_of(message)
        if _is_full(len(portion), size):
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _size(outcome: OutcomeMessage) -> int:
    return _OUTCOME_BYTES + len(outcome.result) + len(outcome.payload)


def _is_full(count: int, size: int) -> bool:
    return count >= MAX_OUTCOMES_PER_FRAME or size >= FRAME_BYTES


def raw_value(value: bytes | None) -> Raw:
    """Return a stored value for a message; None or empty: NOTHING."""
    return Raw(value) if value else _NOTHING


def _outcome(ended: Ended, payload: bytes | None) -> OutcomeMessage:
    operation, record, at_ms, result = ended
    return OutcomeMessage(
        record.seq,
        operation.op_id,
        record.outcome,
        at_ms,
        operation.by_key,
        raw_value(result),
        operation.kind,
        operation.submitted_ms,
        operation.op_deadline_ms,
        raw_value(payload),
    )


def _stored_outcome(outcome: StoredOutcome, row: StoredOperation) -> OutcomeMessage:
    return OutcomeMessage(
        outcome.seq,
        row.op_id,
        outcome.outcome,
        outcome.at_ms,
        outcome.by_key,
        raw_value(outcome.result),
        row.kind,
        row.submitted_ms,
        row.deadline_ms,
        raw_value(row.payload),
    )
