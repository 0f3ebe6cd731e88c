"""Remembering: keeps the store's rows of remembered ids.

The transaction that deletes an ended operation or job writes a row, if the period of its id lasts.
Rows whose period is over are deleted in portions. Now and then the index of the rows is written, so
that a start has few entries to make. Thread with the store.
"""

import logging
import sys
from collections.abc import Iterator
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.encoding import encode
from purgatory.service.server.jobs.job_statuses import job_statuses
from purgatory.service.server.reads.status_answers import ended_status
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.remembered_ids import SHARDS
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import RememberedRow

log: logging.Logger = logging.getLogger(__name__)

#: Milliseconds between looks for rows to delete; between portions.
LOOK_MS: Final = 10_000
PAUSE_MS: Final = 20
#: Rows that a transaction deletes; shards that it writes.
FORGOTTEN: Final = 256
DUMPED: Final = 8
# The index is written after so many rows, and a tenth of all; when a server stops, after so many.
_DUMP_AFTER: Final = 100_000
_DUMP_SHARE: Final = 10
_DUMP_AT_STOP: Final = 20_000
_DUMPED_AT_STOP: Final = 256
#: Deleted outcomes that become rows in a transaction, about, and their bytes.
MOVED: Final = 512
MOVED_BYTES: Final = 1 << 20
# Deleted outcomes examined at once.
_CHUNK: Final = 64


class Remembering:
    """Keeps the rows of `store` for the ids that `state` remembers."""

    def __init__(self, state: ServerState, store: Store) -> None:
        self._state = state
        self._ids = state.remembered
        self._store = store
        #: When `run` is due.
        self.next_ms: int = 0
        self._dumped_place = self._ids.dumped_place
        self._shard = SHARDS  # the next; SHARDS: none
        self._dumping_place = 0

    def move(self, transaction: Transaction) -> None:
        """Write rows of deleted operations and jobs whose period lasts.

        Outcomes beyond MOVED rows or bytes are deleted later, and so are unreadable ones. Raises
        StoreError for damage.
        """
        now_ms, deleted, known = transaction.clock_ms, transaction.deleted, self._state.known
        rows: list[RememberedRow] = []
        size = 0
        for start in range(0, len(deleted), _CHUNK):
            if len(rows) >= MOVED or size >= MOVED_BYTES:
                transaction.keep_outcomes(start)
                break
            records = [
                record
                for record in deleted[start : start + _CHUNK]
                if record.until_ms > now_ms and known.get(record.op_id) is record
            ]
            try:
                found = list(self._rows(records))
            except StoreError as error:
                if error.fatal:
                    raise
                log.warning("%d outcomes are not deleted now: %s", len(deleted) - start, error)
                transaction.keep_outcomes(start)
                break
            rows += found
            size += sum(len(row.status) for row in found)
        if rows:
            changes = self._changes(transaction.changes)
            changes.rows += rows
            self._ids.prepare(changes)
            self.next_ms = min(self.next_ms, now_ms + LOOK_MS)

    def _changes(self, changes: Changes) -> RememberedChanges:
        if changes.remembered is None:
            changes.remembered = RememberedChanges()
        return changes.remembered

    def _rows(self, records: list[OutcomeRecord]) -> Iterator[RememberedRow]:
        until_ms = {record.seq: record.until_ms for record in records}
        seqs = [record.seq for record in records if not record.is_job]
        for outcome, row in self._store.outcomes_by_seqs(seqs) if seqs else ():
            status = encode(ended_status(outcome, row))
            yield self._row(row.op_id, until_ms[outcome.seq], outcome.seq, status)
        jobs = {record.op_id: record for record in records if record.is_job}
        if jobs:
            ended = list(jobs.values())
            for job in job_statuses(ended, self._state, self._store, with_history=True):
                yield self._row(job.job_id, jobs[job.job_id].until_ms, 0, encode(job))

    def _row(self, op_id: str, until_ms: int, seq: int, status: bytes) -> RememberedRow:
        ids = self._ids
        return RememberedRow(ids.next_place(), until_ms, ids.hash_of(op_id), seq, status)

    def run(self, transaction: Transaction, retry_ms: int) -> None:
        """Delete some rows whose period is over, and write some shards.

        After a failed commit, do nothing before `retry_ms`. Raises StoreError for damage.
        """
        now_ms = transaction.clock_ms
        if retry_ms:
            self.next_ms = max(now_ms, retry_ms) + PAUSE_MS
            return
        try:
            self._run(transaction, now_ms)
        except StoreError as error:
            if error.fatal:
                raise
            log.warning("%s", error)
            self.next_ms = now_ms + LOOK_MS

    def _run(self, transaction: Transaction, now_ms: int) -> None:
        ids = self._ids
        due = self._store.remembered.due(now_ms, FORGOTTEN) if ids.count else []
        if due:
            changes = self._changes(transaction.changes)
            changes.deleted += due
            ids.prepare(changes)
        if self._is_dump_due(_DUMP_AFTER, _DUMP_SHARE):
            self._begin_dump()
        if self._shard < SHARDS:
            self._dump(self._changes(transaction.changes), DUMPED)
        if len(due) == FORGOTTEN or self._shard < SHARDS:
            self.next_ms = now_ms + PAUSE_MS
        else:
            self.next_ms = now_ms + LOOK_MS if ids.count else sys.maxsize

    def _is_dump_due(self, after: int, share: int) -> bool:
        later = self._ids.settled_place - self._dumped_place
        return self._shard == SHARDS and later >= max(after, self._ids.count // share)

    def _begin_dump(self) -> None:
        self._shard = 0
        self._dumping_place = self._ids.settled_place

    def _dump(self, changes: RememberedChanges, count: int) -> None:
        """Write the next shards. If the commit fails, a start reads the rows."""
        ids = self._ids
        end = min(self._shard + count, SHARDS)
        changes.shards += [
            (number, ids.settled_place, ids.dump(number)) for number in range(self._shard, end)
        ]
        ids.prepare(changes)
        self._shard = end
        if end == SHARDS:
            self._dumped_place = self._dumping_place

    def stop(self) -> None:
        """Write the index, after the last transaction, if worthwhile. Raises StoreError."""
        if self._shard == SHARDS and not self._is_dump_due(_DUMP_AT_STOP, sys.maxsize):
            return
        self._begin_dump()
        while self._shard < SHARDS:
            changes = Changes()
            self._dump(self._changes(changes), _DUMPED_AT_STOP)
            self._store.commit(changes)
