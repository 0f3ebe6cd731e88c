"""OperationLoading: adds the stored operations to a new state. Starting thread alone."""

import sys
from collections.abc import Iterator

from purgatory.service.server.clock import NS_PER_MS
from purgatory.service.server.jobs.job_index import life_bytes
from purgatory.service.server.memory import StoredMemoryCheck, operation_bytes
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.job_record import JobRecord
from purgatory.service.server.records.operation import PendingOperation, new_job
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import (
    JobState,
    MovedTimes,
    StoredJob,
    StoredOperation,
    StoredOutcome,
)

# Operations between looks at the memory.
_CHUNK = 500


class OperationLoading:
    """Loads the operations of `store` into `state`.

    `outcomes`: without results, by operation number. `stored`: rows of due jobs, by `seq`.
    """

    def __init__(
        self,
        state: ServerState,
        store: Store,
        outcomes: dict[int, StoredOutcome],
        stored: dict[int, StoredJob],
        moved: MovedTimes,
    ) -> None:
        self._state: ServerState = state
        self._outcomes: dict[int, StoredOutcome] = outcomes
        self._stored: dict[int, StoredJob] = stored
        self._progress: dict[int, dict[str, bytes]] = {}
        for number, key, value in store.progress():
            self._progress.setdefault(number, {})[key] = value
        self._now_ns: int = state.clock.reading_ns
        self._moved: MovedTimes = moved
        #: Jobs that have been due, by number.
        self.jobs: list[OutcomeRecord] = []

    def load(self, rows: Iterator[StoredOperation], memory: StoredMemoryCheck) -> None:
        """Add each operation, with outcome or progress. Raises ServerError, ValueError."""
        for count, row in enumerate(rows):
            if count % _CHUNK == 0:
                memory.check(self._state.memory_bytes)
            self._load(row)
        memory.check(self._state.memory_bytes)

    def _load(self, row: StoredOperation) -> None:
        state = self._state
        client = state.clients.record(sys.intern(row.client))
        client.count += 1
        if row.options is not None and row.options.unique_ms > 0:
            state.remembered.reserved += 1
        outcome = self._outcomes.pop(row.number, None)
        if outcome is None:
            self._replace(row)
            self._add_pending(row, client)
        else:
            self._add_ended(row, client, outcome)

    def _replace(self, row: StoredOperation) -> None:
        """Forget the ended holder of an id. Raises ValueError for another holder: damage."""
        before = self._state.known.get(row.op_id)
        if before is None:
            return
        if not isinstance(before, OutcomeRecord) or before.unique_ms < 0:
            raise ValueError(f"operation {row.op_id!r} exists twice")
        if before.job is None:
            self._state.operation_counts.forget(before.client.name, before.outcome)
        # The id was free: its client had acknowledged the outcome.
        self._state.retention.acknowledge(before.client, [before.seq], before.ended_ms)

    def _add_pending(self, row: StoredOperation, client: ClientRecord) -> None:
        """Add an operation, due after its whole millisecond: the store has no fractions."""
        state, keys = self._state, row.keys
        operation = PendingOperation(
            row.number,
            client,
            row.op_id,
            sys.intern(row.kind),
            row.submitted_ms,
            (row.deadline_ms + 1) * NS_PER_MS - 1,
            row.need,
            row.payload is not None,
            self._now_ns,
        )
        operation.bytes = operation_bytes(row.op_id, row.kind, keys)
        if self._progress:
            operation.values = self._progress.pop(row.number, None)
        state.watch(operation, keys)
        state.pending_bytes += operation.all_bytes()
        operation.options = row.options
        if not row.need:
            operation.job = job = new_job(operation)
            state.jobs.bytes += life_bytes(job)
            state.jobs.add(job)
        else:
            state.operation_counts.add(client.name)

    def _add_ended(
        self, row: StoredOperation, client: ClientRecord, outcome: StoredOutcome
    ) -> None:
        record = self._outcome_record(row, client, outcome)
        job = self._stored.get(outcome.seq)
        if job is None or job.state != JobState.DROPPED:
            self._replace(row)
            self._state.known[row.op_id] = record
        if record.job is not None:
            self.jobs.append(record)
        else:
            self._state.retention.add(record)
            self._state.operation_counts.add(client.name)
            self._state.operation_counts.end(client.name, record.outcome)

    def _outcome_record(
        self, row: StoredOperation, client: ClientRecord, outcome: StoredOutcome
    ) -> OutcomeRecord:
        is_old = outcome.seq <= self._moved.outcomes  # counts as ended at the move
        ended_ms = self._moved.at_ms if is_old else outcome.at_ms + outcome.lateness_ms
        job = None
        if not row.need:
            kind = sys.intern(row.kind)
            due_ms = row.deadline_ms
            if is_old:  # the store moved later due times only
                due_ms += sum([by_ms for last, by_ms in self._moved.shifts if outcome.seq <= last])
            job = JobRecord(row.number, row.op_id, client.name, kind, due_ms, row.options)
            job.keys = row.keys
            job.submitted_ms = row.submitted_ms
        name = outcome.outcome
        record = OutcomeRecord(outcome.seq, row.number, row.op_id, client, name, ended_ms, job)
        if row.options is not None:
            record.unique_ms = row.options.unique_ms
        return record
