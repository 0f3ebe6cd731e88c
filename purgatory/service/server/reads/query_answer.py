"""The answer to a query, in portions.

Each distinct id is looked up once. What has ended is read from the store, a few at a time. Used by
the store thread alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Raw

from purgatory.service.errors import TooLarge
from purgatory.service.protocol import (
    NOTHING,
    Failure,
    OperationStatus,
    Query,
    States,
    encode,
)
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import Store, StoredOutcome

#: Ids that are looked up in one portion.
PORTION: Final = 32
#: Results and payloads take so small a part of an answer about several ids: 1 / VALUES_SHARE.
VALUES_SHARE: Final = 8
_NOTHING: Final = Raw(NOTHING)
_EMPTY_BYTES: Final = 2 * len(NOTHING)


#: Finds an operation by its id.
Find = Callable[[str], PendingOperation | OutcomeRecord | None]


def answer_query(
    request: Query, find: Find, store: Store, max_bytes: int
) -> Iterator[bytes | None]:
    """Yield None after each portion, and the frame of the answer last. Raises StoreError.

    An answer of more than `max_bytes` is a failure instead, unless it is about one id. Results and
    payloads are left out from where they take a part of that.
    """
    times = Counter(request.op_ids)  # distinct ids, in order
    ids = list(times)
    found: dict[str, Raw] = {}
    size = 0
    room = max_bytes if len(request.op_ids) == 1 else max_bytes // VALUES_SHARE
    for start in range(0, len(ids), PORTION):
        for status in _look_up(ids[start : start + PORTION], find, store):
            room -= fit_values(status, room, times[status.op_id])
            found[status.op_id] = raw = Raw(encode(status))
            size += len(raw) * times[status.op_id]
        if size > max_bytes and len(request.op_ids) > 1:
            message = f"the answer has more than {max_bytes} bytes; ask for fewer ids at a time"
            yield encode(Failure(request.seq, TooLarge.code, message))
            return
        yield None
    yield _encode_states(request.seq, [found[op_id] for op_id in request.op_ids])


def fit_values(status: OperationStatus, room: int, times: int = 1) -> int:
    """Leave result and payload out if they do not fit; returns how many bytes of room they take."""
    size = len(status.result) + len(status.payload)
    if size <= _EMPTY_BYTES:
        return 0
    if size * times <= room:
        return size * times
    status.result = status.payload = _NOTHING
    status.left_out = size
    return 0


def _encode_states(seq: int, states: list[Raw]) -> bytes:
    """Encode `States` of statuses that are encoded already."""
    return encode((States.__struct_config__.tag, seq, states))


def _look_up(op_ids: Sequence[str], find: Find, store: Store) -> Iterator[OperationStatus]:
    ended: dict[int, OutcomeRecord] = {}
    pending: list[PendingOperation] = []
    for op_id in op_ids:
        entry = find(op_id)
        if entry is None:
            yield OperationStatus(op_id, "unknown")
        elif isinstance(entry, OutcomeRecord):
            ended[entry.seq] = entry
        else:
            pending.append(entry)
    yield from _pending_statuses(pending, store)
    if ended:
        for outcome, row in store.outcomes_by_seqs(list(ended)):
            yield ended_status(outcome, row)


def _pending_statuses(
    operations: list[PendingOperation], store: Store
) -> Iterator[OperationStatus]:
    numbers = [operation.number for operation in operations if operation.has_payload]
    stored = store.by_numbers(numbers) if numbers else {}
    for operation in operations:
        row = stored.get(operation.number)
        yield pending_status(operation, None if row is None else row.payload)


def pending_status(operation: PendingOperation, payload: bytes | None) -> OperationStatus:
    """Return the state of an operation that waits."""
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
        payload=_raw(payload),
    )


def ended_status(outcome: StoredOutcome, row: StoredOperation) -> OperationStatus:
    """Return the state of an operation that has ended."""
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
        result=_raw(outcome.result),
        payload=_raw(row.payload),
    )


def _raw(value: bytes | None) -> Raw:
    return Raw(value) if value else _NOTHING
