"""Recovery: loads, at the start, what the last run left on disk.

`start_clock`, `load_state`, then `start_journal`. Starting thread alone.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from purgatory.errors import StoreError
from purgatory.service.server.clock import ClockSources, ServiceClock
from purgatory.service.server.jobs.job_index import life_bytes
from purgatory.service.server.journal.journal_numbers import JournalNumbers
from purgatory.service.server.leases.due_job import ANY_TIME, due_job_of
from purgatory.service.server.memory import StoredMemoryCheck
from purgatory.service.server.operation_loading import OperationLoading
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import CANCELLED, DEAD, DONE, READY
from purgatory.service.server.records.remembered_ids import (
    MAX_REMEMBERED,
    REMEMBER_MS,
    SHARDS,
    RememberedIds,
)
from purgatory.service.server.records.retention import OutcomeRetention
from purgatory.service.server.records.spreads import Spread, SpreadRequest
from purgatory.service.server.repeats.load_repeats import load_repeats
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import DAMAGE, DATABASE_ID, PLACE, SKIPPED, Store
from purgatory.service.store.rows import (
    JobState,
    MovedTimes,
    StoredJob,
    StoredOutcome,
    StoredSpread,
)

log: logging.Logger = logging.getLogger(__name__)

#: Keys of the metadata: acknowledged outcomes; the epoch of the leases; `MovedTimes`.
ACKNOWLEDGED: Final = "acknowledged"
LEASE_EPOCH: Final = "lease_epoch"
_MOVED: Final = "moved"
# The last run's stamps may have been ahead of the clock, but not so far. Else the clock is slow, as
# after a boot without a battery: deadlines do not wait for it.
_MAX_AHEAD_MS: Final = 60_000
# Useless entries of remembered ids, beside as many as useful.
_STALE_ENTRIES: Final = 100_000


@contextlib.contextmanager
def _damage_refused() -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise StoreError(f"{DAMAGE}: {error!r}", fatal=True) from error


@_damage_refused()
def start_clock(store: Store, sources: ClockSources | None = None) -> ServiceClock:
    """Continue the last run's clock; `sources` default to the system's. Raises StoreError.

    Without a clock of the store, the times of what waits move by as much as the wall clock was set;
    if the disk is full, at a later start.
    """
    before = store.metadata()
    clock = ServiceClock(before, sources, store.clock_offset_ns)
    if clock.shift_ms:
        last = _read_moved(before).again(store.last_numbers(), clock.shift_ms, clock.now_ms())
        moved = msgspec.msgpack.encode(last)
        acknowledged = _moved_acknowledgements(before, clock.shift_ms)
        try:
            store.shift_times(clock.shift_ms, {**clock.metadata(), **acknowledged, _MOVED: moved})
        except StoreError as error:
            _check_passes(error)
            clock.undo_shift()
    return clock


def _check_passes(error: StoreError) -> None:
    """Log an error of a full disk: a server starts, to answer reads. Raises other errors."""
    if error.fatal:
        raise error
    log.warning("nothing can be written yet: %s", error)


@_damage_refused()
def load_state(
    store: Store,
    clock: ServiceClock,
    registry: CollectorRegistry | None = None,
    max_memory: int = 0,
    max_remembered: int = MAX_REMEMBERED,
    remember_ms: int = REMEMBER_MS,
    note_state: Callable[[ServerState], None] = lambda _: None,
) -> ServerState:
    """Read all operations and outcomes into a new state. Raises StoreError.

    Raises ServerError before they exceed `max_memory`. `note_state` gets the empty state, to show
    progress. The timer begins at the oldest submission: operations due meanwhile expire in order of
    deadline.
    """
    now_ms = clock.now_ms()
    oldest_ms = store.oldest_submission_ms()
    start_ms = now_ms if oldest_ms is None else min(now_ms, oldest_ms)
    # Above earlier runs', also after a restored backup if the clock is right.
    before = store.metadata()
    epoch = max(int(before.get(LEASE_EPOCH, 0)) + 1, now_ms // 1000)
    state = ServerState(start_ms, registry, max_memory, epoch)
    note_state(state)
    place = store.place()
    if before.get(PLACE, place) != place:
        _go_on_after_restore(store)
    state.unnoted = note_start(store, {**clock.metadata(), LEASE_EPOCH: epoch, PLACE: place})
    last = store.last_numbers()
    state.last_number, state.last_seq = last.operations, last.outcomes
    state.journal_numbers = JournalNumbers(last, store.deleted_queued())
    memory = StoredMemoryCheck(store, max_memory)
    memory.check_before()
    metadata = store.metadata()
    key_bytes = str(metadata[DATABASE_ID]).encode()
    state.remembered = RememberedIds(key_bytes, max_remembered, remember_ms)
    _load_remembered(state.remembered, store)
    state.replies.load(store.replies())
    state.named_leases.load(store.named_leases())
    for key, event in store.held_events():
        state.held.set(key, event)
    moved = _read_moved(metadata)
    outcomes = {outcome.number: outcome for outcome in store.outcomes_without_results()}
    last_ms = max(
        store.last_event_ms(moved.events) or 0, _last_expiry_ms(outcomes.values(), moved) + 1
    )
    if last_ms <= now_ms + _MAX_AHEAD_MS:
        state.stamp.follow(last_ms)
    stored = {job.seq: job for job in store.jobs()}
    loading = OperationLoading(state, store, outcomes, stored, moved)
    loading.load(store.operations(), memory)
    load_jobs(state, stored, loading.jobs)
    load_repeats(state, store, now_ms, clock.shift_ms)
    for limit in store.limits():
        state.leases.limits.put(limit, now_ms, tokens=0.0)  # the last run may have used all
    memory.check(state.memory_bytes)
    for client in state.clients.by_name.values():
        client.unacknowledged = dict(sorted(client.unacknowledged.items()))
    _load_acknowledgements(state, metadata)
    return state


def _go_on_after_restore(store: Store) -> None:
    """Skip the numbers of outcomes that clients may know.

    Else a program that asks for the outcomes after its last one would miss new outcomes.
    """
    store.skip_outcome_numbers(SKIPPED)
    log.warning("the database was restored: new outcomes get numbers above %d", SKIPPED)


def _last_expiry_ms(outcomes: Iterable[StoredOutcome], moved: MovedTimes) -> int:
    """Return the last deadline that expired: new events come after it."""
    expired = (o.at_ms for o in outcomes if o.outcome == "expired" and o.seq > moved.outcomes)
    return max(expired, default=0)


def _load_remembered(ids: RememberedIds, store: Store) -> None:
    """Read the stored entries, and make those of later rows.

    If most are of deleted rows, all are made anew.
    """
    ids.count, ids.last_place = store.remembered.counts()
    ids.settled_place = ids.last_place
    if not ids.count:
        ids.dumped_place = ids.last_place
        return
    dumped: list[int] = []
    for shard, last_place, entries in store.remembered.shards():
        ids.load(shard, entries)
        dumped.append(last_place)
    if len(dumped) == SHARDS and ids.entries <= 2 * ids.count + _STALE_ENTRIES:
        ids.dumped_place = min(dumped)
    else:
        ids.clear()
    for hashed, place in store.remembered.entries(ids.dumped_place):
        ids.add(hashed, place)


def pack_acknowledgements(retention: OutcomeRetention) -> bytes:
    """Encode the kept acknowledged outcomes, with times, at the end of a run."""
    return msgspec.msgpack.encode([(at_ms, record.seq) for at_ms, record in retention.acknowledged])


def _acknowledgements(metadata: dict[str, Any]) -> list[tuple[int, int]]:
    packed = metadata.get(ACKNOWLEDGED)
    return [] if packed is None else msgspec.msgpack.decode(packed, type=list[tuple[int, int]])


def _moved_acknowledgements(metadata: dict[str, Any], by_ms: int) -> dict[str, Any]:
    moved = [(at_ms + by_ms, seq) for at_ms, seq in _acknowledgements(metadata)]
    return {ACKNOWLEDGED: msgspec.msgpack.encode(moved)} if moved else {}


def _load_acknowledgements(state: ServerState, metadata: dict[str, Any]) -> None:
    owners = {
        seq: client for client in state.clients.by_name.values() for seq in client.unacknowledged
    }
    for acknowledged_ms, seq in _acknowledgements(metadata):
        if seq in owners:
            state.retention.acknowledge(owners[seq], [seq], acknowledged_ms)


def _read_moved(metadata: dict[str, Any]) -> MovedTimes:
    packed = metadata.get(_MOVED)
    return MovedTimes() if packed is None else msgspec.msgpack.decode(packed, type=MovedTimes)


@_damage_refused()
def load_spreads(state: ServerState, store: Store) -> None:
    """Add the unfinished events, in order. Raises StoreError."""
    rows = store.spreads()
    state.last_spread = max([row.number for row in rows], default=0)
    requests: dict[tuple[str, int, int], SpreadRequest] = {}
    found: list[Spread] = []
    for row in rows:
        same = (row.session, row.seq, 0 if row.session else row.number)
        counts = msgspec.msgpack.decode(row.counts, type=list[int])
        request = requests.setdefault(
            same, SpreadRequest(row.session, row.seq, counts, failed=bool(row.failed))
        )
        if row.last_seq:
            request.counts[row.place] = row.ended
        else:
            found.append(_spread(row, request))
    for spread in found:
        watchers = state.watchers_of(spread.key)
        spread.reach([one for one in watchers if one.number <= spread.last], spread.last)
        spread.set_jobs([one for one in state.due_jobs(spread.key) if one.number <= spread.last])
        state.add_spread(spread)
        request = spread.request
        request.is_new = False
        if request.session:  # the request may come again before the end
            state.spread_requests[request.session, request.seq] = request


def _spread(row: StoredSpread, request: SpreadRequest) -> Spread:
    value, failed = bytes(row.value), bool(row.failed)
    spread = Spread(row.number, row.key, value, row.at_ms, row.first_seq, failed)
    spread.last, spread.count, spread.place = row.last, row.ended, row.place
    spread.request = request
    request.left += 1
    return spread


def note_start(store: Store, metadata: dict[str, Any]) -> dict[str, Any]:
    """Write the clock and the epoch; return what a full disk did not take. Raises StoreError."""
    try:
        store.set_metadata(metadata)
    except StoreError as error:
        _check_passes(error)
        return metadata
    return {}


def load_jobs(state: ServerState, stored: dict[int, StoredJob], due: list[OutcomeRecord]) -> None:
    """Add jobs that have been due or cancelled; `stored`: their rows, by `seq`."""
    ended: list[tuple[int, OutcomeRecord]] = []
    alive: list[tuple[int, OutcomeRecord]] = []  # since when ready
    for record in sorted(due, key=lambda one: one.seq):
        job = record.job
        assert job is not None
        state.retention.add_job(record)
        known = stored.get(record.seq)
        if record.outcome != "expired":
            job.state = CANCELLED
            ended.append((record.ended_ms, record))
        elif known is not None and known.state in _ENDED:
            job.state = _ENDED[known.state]
            ended.append((known.at_ms, record))
        else:  # a dead job has ended in an earlier run, so it counts in no figure of this run
            is_dead = known is not None and known.state == JobState.DEAD
            job.state = DEAD if is_dead else READY
        if state.known.get(record.op_id) is record:
            state.jobs.bytes += life_bytes(job)
            state.jobs.add(job)
        if job.state in (READY, DEAD):
            alive.append(((known and known.at_ms) or record.ended_ms, record))
    for _, record in sorted(alive, key=lambda one: one[0]):
        _load_due(state, record, stored.get(record.seq))
    for at_ms, record in sorted(ended, key=lambda one: one[0]):
        state.retention.end_job(record, at_ms)


# CANCELLING: the restart has ended the lease.
_ENDED: Final[dict[int, int]] = {
    JobState.DONE: DONE,
    JobState.CANCELLED: CANCELLED,
    JobState.CANCELLING: CANCELLED,
    JobState.DROPPED: CANCELLED,
}


def _load_due(state: ServerState, record: OutcomeRecord, known: StoredJob | None) -> None:
    if known is None:
        state.leases.add(due_job_of(record))
    elif known.state == JobState.DEAD:
        state.leases.add_dead(due_job_of(record, known.attempts))
    else:
        due = due_job_of(record, known.attempts, known.at_ms)
        if not known.at_ms:  # dead before
            due.start_within_ms = ANY_TIME
        state.leases.add(due, known.at_ms, state.stamp.now_ms)
