"""Answers about operations' states, in portions: to a query of ids, and to a list.

A query looks up each distinct id once. A list reads a few batches at a time, by number, and after
some portions answers even without matches: the client asks for the rest. Store thread alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.errors import Malformed, TooLarge
from purgatory.service.job_messages import JobStatus
from purgatory.service.protocol import (
    MAX_INT,
    NOTHING,
    OPERATION_ORDERS,
    Answer,
    Failure,
    Operations,
    OperationStatus,
    ReadOperations,
    own_key,
)
from purgatory.service.server.jobs.job_statuses import job_statuses
from purgatory.service.server.reads.outcome_frames import raw_value
from purgatory.service.server.reads.remembered_answers import RememberedReader, status_of_job
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import OUTCOMES_OF_JOBS
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import StoredOperation, StoredOutcome

#: Ids looked up in a portion.
PORTION: Final = 32
#: Values take 1 / VALUES_SHARE of an answer about several ids.
VALUES_SHARE: Final = 8
#: Operations in an answer, and bytes of their values.
MAX_LISTED: Final = 500
VALUE_BYTES: Final = 1 << 17
#: Batches of a portion; portions of a request.
BATCHES: Final = 4
MAX_PORTIONS: Final = 200
#: Up to so many operations of a key are found by it.
FEW_WATCHERS: Final = 5000
_NEWEST: Final = "newest"
_NOTHING: Final = Raw(NOTHING)
_EMPTY_BYTES: Final = 2 * len(NOTHING)

_Match = tuple[StoredOperation, PendingOperation | OutcomeRecord]


def answer_ids(
    answer: type[Answer],
    seq: int,
    ids: list[str],
    look_up: Callable[[Sequence[str]], Iterable[OperationStatus | JobStatus]],
    max_bytes: int,
) -> Iterator[bytes | None]:
    """Yield None after each portion, then the frame of an `answer` with the statuses.

    An answer of more than `max_bytes` is a failure, unless about one id. Results and payloads
    beyond their share are left out.
    """
    times = Counter(ids)  # distinct ids, in order
    distinct = list(times)
    found: dict[str, Raw] = {}
    size = 0
    room = max_bytes if len(ids) == 1 else max_bytes // VALUES_SHARE
    for start in range(0, len(distinct), PORTION):
        for status in look_up(distinct[start : start + PORTION]):
            name = status.job_id if isinstance(status, JobStatus) else status.op_id
            room -= fit_values(status, room, times[name])
            found[name] = raw = Raw(encode(status))
            size += len(raw) * times[name]
        if size > max_bytes and len(ids) > 1:
            message = f"the answer has more than {max_bytes} bytes; ask for fewer ids at a time"
            yield encode(Failure(seq, TooLarge.code, message))
            return
        yield None
    yield encode((answer.__struct_config__.tag, seq, [found[name] for name in ids]))


def answer_list(
    request: ReadOperations, owner: str | None, state: ServerState, store: Store
) -> Iterator[bytes | None]:
    """Yield None after each portion, then the frame. Raises StoreError."""
    if request.order not in OPERATION_ORDERS:
        message = f"order is {request.order!r}; expected one of {OPERATION_ORDERS}"
        yield encode(Failure(request.seq, Malformed.code, message))
        return
    if _is_none_counted(request, owner, state):
        yield encode(Operations(request.seq, [], None))
        return
    limit = min(max(1, request.limit), MAX_LISTED)
    start = MAX_INT if request.order == _NEWEST else 0
    after, room = request.after or start, VALUE_BYTES
    found: list[OperationStatus] = []
    for _ in range(MAX_PORTIONS):
        rows = _next_rows(request, after, state, store)
        matches = [match for row in rows if (match := _match(request, owner, row, state))]
        taken = matches[: limit - len(found)]
        for start in range(0, len(taken), PORTION):
            for status in _statuses(taken[start : start + PORTION], state, store):
                room -= fit_values(status, room)
                found.append(status)
            yield None
        is_full = len(found) >= limit
        after = taken[-1][0].number if is_full else rows[-1].number if rows else after
        if is_full or not rows:
            yield encode(Operations(request.seq, found, after if rows else None))
            return
        yield None
    yield encode(Operations(request.seq, found, after))


def _is_none_counted(request: ReadOperations, owner: str | None, state: ServerState) -> bool:
    """Whether the counts exclude a match, and save a look at a million jobs."""
    if request.with_jobs:
        return False
    counts = state.operation_counts.of(owner or request.client)
    return not counts if request.state is None else request.state not in counts


def _next_rows(
    request: ReadOperations, after: int, state: ServerState, store: Store
) -> list[StoredOperation]:
    is_newest = request.order == _NEWEST
    watchers = () if request.key is None else state.parts.lists.watchers_of(request.key)
    if request.key is None or len(watchers) > FEW_WATCHERS:  # sorting would take long
        return store.some_operations(after, BATCHES, newest=is_newest)
    numbers = sorted([one.number for one in state.watchers_of(request.key)], reverse=is_newest)
    beyond = [number for number in numbers if (number < after if is_newest else number > after)]
    found = store.by_numbers(beyond[:PORTION])
    return [found[number] for number in sorted(found, reverse=is_newest)]


def _match(
    request: ReadOperations, owner: str | None, row: StoredOperation, state: ServerState
) -> _Match | None:
    if request.kind not in (None, row.kind) or request.client not in (None, row.client):
        return None
    entry = state.find(row.op_id, owner)
    if entry is None or entry.number != row.number:
        return None  # another client's, or deleted
    if entry.job is not None and not request.with_jobs:
        return None
    if request.key is not None and (
        request.key not in row.keys or not isinstance(entry, PendingOperation)
    ):
        return None
    return (row, entry) if request.state in (None, state_of(entry)) else None


def state_of(entry: PendingOperation | OutcomeRecord) -> str:
    """Return an operation's state; a due job is pending until its end."""
    if entry.job is not None:
        return OUTCOMES_OF_JOBS[entry.job.state]
    return entry.outcome if isinstance(entry, OutcomeRecord) else "pending"


def _statuses(matches: list[_Match], state: ServerState, store: Store) -> Iterator[OperationStatus]:
    records = [entry for _, entry in matches if isinstance(entry, OutcomeRecord)]
    jobs = [entry for entry in records if entry.job is not None]
    seqs = [entry.seq for entry in records if entry.job is None]
    found = store.outcomes_by_seqs(seqs) if seqs else []
    ended = {one.number: ended_status(one, row) for one, row in found}
    if jobs:
        ended |= {job.number: status_of_job(job) for job in job_statuses(jobs, state, store)}
    for row, entry in matches:
        if isinstance(entry, PendingOperation):
            yield _pending_status(entry, row.payload)
        elif entry.number in ended:
            yield ended[entry.number]


def fit_values(status: OperationStatus | JobStatus, room: int, times: int = 1) -> int:
    """Leave out result and payload if too large; return their bytes."""
    size = len(status.result) + len(status.payload)
    if size <= _EMPTY_BYTES:
        return 0
    if size * times <= room:
        return size * times
    status.result = status.payload = _NOTHING
    status.left_out = size
    return 0


def look_up(
    owner: str | None,
    state: ServerState,
    remembered: RememberedReader,
    store: Store,
    op_ids: Sequence[str],
) -> Iterator[OperationStatus]:
    """Yield the statuses of operations. Raises StoreError."""
    ended: list[int] = []
    jobs: list[OutcomeRecord] = []
    pending: list[PendingOperation] = []
    for op_id in op_ids:
        entry = state.find(op_id, owner)
        if entry is None:
            yield remembered.operation(op_id, owner) or OperationStatus(op_id, "unknown")
        elif isinstance(entry, PendingOperation):
            pending.append(entry)
        elif entry.job is not None:
            jobs.append(entry)
        else:
            ended.append(entry.seq)
    yield from _pending_statuses(pending, store)
    if jobs:
        yield from map(status_of_job, job_statuses(jobs, state, store))
    if ended:
        for outcome, row in store.outcomes_by_seqs(ended):
            yield ended_status(outcome, row)


def _pending_statuses(
    operations: list[PendingOperation], store: Store
) -> Iterator[OperationStatus]:
    numbers = [operation.number for operation in operations if operation.has_payload]
    stored = store.by_numbers(numbers) if numbers else {}
    for operation in operations:
        row = stored.get(operation.number)
        yield _pending_status(operation, None if row is None else row.payload)


def _pending_status(operation: PendingOperation, payload: bytes | None) -> OperationStatus:
    return OperationStatus(
        operation.op_id,
        "pending",
        operation.kind,
        operation.client.name,
        _shown_keys(operation.op_id, operation.keys, operation.need),
        operation.need,
        operation.submitted_ms,
        operation.op_deadline_ms,
        keys_done=list(operation.values or ()),
        payload=raw_value(payload),
    )


def _shown_keys(op_id: str, keys: tuple[str, ...], need: int) -> list[str]:
    """Return keys as the client gave them: none for a job without `unless`."""
    return [] if not need and keys == (own_key(op_id),) else list(keys)


def ended_status(outcome: StoredOutcome, row: StoredOperation) -> OperationStatus:
    """Return the status of an ended operation."""
    return OperationStatus(
        row.op_id,
        outcome.outcome,
        row.kind,
        row.client,
        _shown_keys(row.op_id, row.keys, row.need),
        row.need,
        row.submitted_ms,
        row.deadline_ms,
        outcome.at_ms,
        outcome.by_key,
        result=raw_value(outcome.result),
        payload=raw_value(row.payload),
    )
