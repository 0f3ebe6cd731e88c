"""StoreCopier: writes the content of a store to a second, empty store.

Only the contract of a store is used, so each kind can be copied to each other. All numbers stay,
also the last of deleted rows: tokens, journals and acknowledgements go on. One thread uses both
stores.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from msgspec import Raw

from purgatory.errors import StoreError
from purgatory.service.portions import in_portions
from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.contract import (
    COUNT,
    DATABASE_ID,
    LAST_PLACE,
    PLACE,
    SHIFT,
    UNFINISHED_COPY,
    Store,
)
from purgatory.service.store.rows import MAX_BATCH, OperationBatch, QueuedJob, StoredOperation

_CHUNK: Final = 5000  # records of a commit
# Metadata of a store itself, or of the clock of a machine.
_OWN: Final = frozenset(
    ("last", COUNT, LAST_PLACE, PLACE, SHIFT, "boot_id", "offset_ns", "drift_ms", UNFINISHED_COPY)
)
_NIL: Final = b"\xc0"


class Copied(NamedTuple):
    """How much was copied."""

    operations: int
    outcomes: int
    remembered: int


class StoreCopier:
    """Copies `source` to `target`, which is empty; `note` gets the count of copied records."""

    def __init__(
        self, source: Store, target: Store, note: Callable[[int], None] = lambda _: None
    ) -> None:
        self._source = source
        self._target = target
        self._note = note
        self._done = 0

    def run(self) -> Copied:
        """Copy everything. Raises StoreError."""
        self._copy_numbers()
        copied = Copied(self._copy_operations(), self._copy_outcomes(), self._copy_remembered())
        self._copy_small()
        self._copy_queue()
        metadata = self._source.metadata()
        self._target.set_metadata({key: metadata[key] for key in metadata.keys() - _OWN})
        if self._target.last_numbers() != self._source.last_numbers():
            raise StoreError("the copy is incomplete; delete it")
        return copied

    def _commit(self, changes: Changes, count: int) -> None:
        if changes:
            self._target.commit(changes)
        self._done += count
        self._note(self._done)

    def _copy_numbers(self) -> None:
        """Pass the last numbers on: write and delete rows with these numbers."""
        last = self._source.last_numbers()
        if not any(last):
            return
        made, undone = Changes(), Changes()
        if last.operations:
            items = [["", ["k"], 0, 1, "", Raw(_NIL)]]
            made.operations = [OperationBatch(last.operations, "", 0, items)]
            undone.delete_operations = [last.operations]
        if last.outcomes:
            made.outcomes = [last.outcomes, last.operations, "completed", 0, 0, "", ""]
            undone.delete_outcomes = [last.outcomes]
        if last.events:
            made.queued_events = [last.events, "", 0, 0, 0]
        if last.extensions:
            made.queued_extensions = [last.extensions, "", 0, 0]
        if last.jobs:
            job = QueuedJob(last.jobs, "", "", "", "", (), 0, 0, 0, 0, 0, "", "")
            made.queued_jobs = [job]
        undone.delete_queued = (last.events, last.extensions, last.jobs)
        self._commit(made, 0)
        self._commit(undone, 0)

    def _copy_operations(self) -> int:
        count = 0
        both = zip(self._source.submissions(), self._source.operations(), strict=True)
        for chunk in in_portions(both, _CHUNK):
            changes = Changes()
            changes.operations = list(batches_of(first for first, _ in chunk))
            for first, present in chunk:
                if first.deadline_ms != present.deadline_ms:
                    changes.deadlines += (present.number, present.deadline_ms)
            self._commit(changes, len(chunk))
            count += len(chunk)
        self._copy_rows("progress", self._source.progress())
        return count

    def _copy_outcomes(self) -> int:
        count = 0
        for chunk in in_portions(self._source.outcomes(), _CHUNK):
            seqs = [one.seq for one in chunk]
            changes = Changes()
            for one in chunk:
                changes.outcomes += (
                    *one[:-2],
                    one.by_key or "",
                    bytearray(one.result or b"") or "",
                )
            changes.jobs = _flat((seq, *row) for seq, row in self._source.job_rows(seqs).items())
            changes.attempts = _flat(
                row for rows in self._source.attempts(seqs).values() for row in rows
            )
            changes.results = _flat(self._source.results(seqs).items())
            self._commit(changes, len(chunk))
            count += len(chunk)
        return count

    def _copy_remembered(self) -> int:
        source = self._source.remembered
        count, last_place = source.counts()
        done = 0
        for chunk in in_portions(source.entries(0), _CHUNK):
            changes = Changes()
            changes.remembered = remembered = RememberedChanges()
            remembered.rows = sorted(source.read([place for _, place in chunk]))
            done += len(chunk)
            remembered.count, remembered.last_place = done, last_place
            self._commit(changes, len(chunk))
        for shard in source.shards() if count else ():
            changes = Changes()
            changes.remembered = RememberedChanges()
            changes.remembered.shards = [shard]
            self._commit(changes, 1)
        return count

    def _copy_small(self) -> None:
        source = self._source
        tables: dict[str, Iterable[Iterable[Any]]] = {
            "held": ((key, *event) for key, event in source.held_events()),
            "spreads": source.spreads(),
            "repeats": source.repeats(),
            "limits": source.limits(),
            "named_leases": source.named_leases(),
            "replies": source.replies(),
        }
        for name, rows in tables.items():
            self._copy_rows(name, rows)

    def _copy_queue(self) -> None:
        self._copy_rows("queued_events", self._source.queued_events(0))
        self._copy_rows("queued_extensions", self._source.queued_extensions(0))
        for jobs in in_portions(self._source.queued_jobs(0), _CHUNK):
            changes = Changes()
            changes.queued_jobs = jobs
            self._commit(changes, len(jobs))

    def _copy_rows(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        for chunk in in_portions(rows, _CHUNK):
            changes = Changes()
            setattr(changes, name, _flat(chunk))
            self._commit(changes, len(chunk))


def check_empty(store: Store) -> None:
    """Raise StoreError if a store has, or ever had, anything."""
    has_numbers = any(store.last_numbers())
    if has_numbers or store.repeats() or store.limits() or store.named_leases():
        raise StoreError("the store to copy to is not empty; expected a new one")
    if store.metadata().keys() - {DATABASE_ID}:
        raise StoreError("a server has used the store to copy to; expected a new one")


def batches_of(operations: Iterable[StoredOperation]) -> Iterator[OperationBatch]:
    """Yield operations as written: those of one client and moment together."""
    batch: OperationBatch | None = None
    for one in operations:
        is_next = batch is not None and one.number == batch.first + len(batch.operations)
        if (
            batch is None
            or not is_next
            or (one.client, one.submitted_ms) != (batch.client, batch.submitted_ms)
            or len(batch.operations) == MAX_BATCH
        ):
            if batch is not None:
                yield batch
            batch = OperationBatch(one.number, one.client, one.submitted_ms, [])
        batch.operations.append(_item(one))
    if batch is not None:
        yield batch


def _item(one: StoredOperation) -> list[Any]:
    timeout_ms = one.deadline_ms - one.submitted_ms
    payload = Raw(_NIL if one.payload is None else one.payload)
    item = [one.op_id, list(one.keys), timeout_ms, one.need, one.kind, payload]
    return item if one.options is None else [*item, 0, one.options]


def _flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in rows for value in row]
