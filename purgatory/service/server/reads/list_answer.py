"""The answer to a request for a list of operations, in portions.

Operations are read from the store in order of their numbers, a few batches at a time, so a request
that matches few of a million keeps no other waiting. A request looks at a bounded number of them;
then it is answered, also with none, and the client asks for the rest. Used by the store thread
alone.
"""

from collections.abc import Iterator
from typing import Final

from purgatory.service.protocol import Operations, OperationStatus, ReadOperations, encode
from purgatory.service.server.reads.query_answer import ended_status, fit_values, pending_status
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.store.operation_batches import StoredOperation
from purgatory.service.store.store import Store

#: Operations in an answer, at most, and bytes of their results and payloads.
MAX_LISTED: Final = 500
VALUE_BYTES: Final = 1 << 17
#: Batches that are read in one portion, and portions of a request.
BATCHES: Final = 4
MAX_PORTIONS: Final = 200
#: Operations that wait for a key are looked up by it if they are not more than that.
FEW_WATCHERS: Final = 5000

_Match = tuple[StoredOperation, PendingOperation | OutcomeRecord]


def answer_list(
    request: ReadOperations, owner: str | None, state: ServerState, store: Store
) -> Iterator[bytes | None]:
    """Yield None after each portion, and the frame of the answer last. Raises StoreError.

    `owner`: see `ServerState.find`.
    """
    limit = min(max(1, request.limit), MAX_LISTED)
    after, room = request.after, VALUE_BYTES
    found: list[OperationStatus] = []
    for _ in range(MAX_PORTIONS):
        rows = _next_rows(request, after, state, store)
        matches = [match for row in rows if (match := _match(request, owner, row, state))]
        taken = matches[: limit - len(found)]
        for status in _statuses(taken, store):
            room -= fit_values(status, room)
            found.append(status)
        is_full = len(found) >= limit
        after = taken[-1][0].number if is_full else rows[-1].number if rows else after
        if is_full or not rows:
            yield encode(Operations(request.seq, found, after if rows else None))
            return
        yield None
    yield encode(Operations(request.seq, found, after))


def _next_rows(
    request: ReadOperations, after: int, state: ServerState, store: Store
) -> list[StoredOperation]:
    """Return the operations to look at next, in order; none: there are no more."""
    if request.key is None:
        return store.some_operations(after, BATCHES)
    watchers = state.purgatory._lists.watchers_of(request.key)
    if len(watchers) > FEW_WATCHERS:  # to sort them would take long
        return store.some_operations(after, BATCHES)
    numbers = [one.number for one in state.watchers_of(request.key) if one.number > after]
    found = store.by_numbers(numbers[:MAX_LISTED])
    return [found[number] for number in sorted(found)]


def _match(
    request: ReadOperations, owner: str | None, row: StoredOperation, state: ServerState
) -> _Match | None:
    """Return an operation with what is known of it, if it matches."""
    if request.kind not in (None, row.kind) or request.client not in (None, row.client):
        return None
    entry = state.find(row.op_id, owner)
    if entry is None or entry.number != row.number:
        return None  # another client's, or deleted
    if request.key is not None and (
        request.key not in row.keys or not isinstance(entry, PendingOperation)
    ):
        return None
    name = entry.outcome if isinstance(entry, OutcomeRecord) else "pending"
    return (row, entry) if request.state in (None, name) else None


def _statuses(matches: list[_Match], store: Store) -> Iterator[OperationStatus]:
    seqs = [entry.seq for _, entry in matches if isinstance(entry, OutcomeRecord)]
    ended = {}
    for start in range(0, len(seqs), MAX_LISTED):
        for outcome, row in store.outcomes_by_seqs(seqs[start : start + MAX_LISTED]):
            ended[outcome.number] = ended_status(outcome, row)
    for row, entry in matches:
        if isinstance(entry, PendingOperation):
            yield pending_status(entry, row.payload)
        elif entry.number in ended:
            yield ended[entry.number]
