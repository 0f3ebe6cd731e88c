"""RememberedReader: reads remembered operations and jobs. Store thread alone."""

from collections.abc import Sequence
from typing import Final

import msgspec

from purgatory.service.job_messages import CANCELLED_BY_KEY, JOB_STATES, JobStatus
from purgatory.service.protocol import OperationStatus, OutcomeMessage
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.job_record import OUTCOMES_OF_JOBS
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import RememberedRow

_decode_operation: Final = msgspec.msgpack.Decoder(OperationStatus).decode
_decode_job: Final = msgspec.msgpack.Decoder(JobStatus).decode


class RememberedOutcome(OutcomeRecord):
    """An outcome in the store's table of remembered ids, at `place`."""

    __slots__ = ("place",)

    def __init__(self, row: RememberedRow, status: OperationStatus | JobStatus) -> None:
        is_job, op_id, outcome = False, "", status.state
        if isinstance(status, JobStatus):
            is_job, op_id = True, status.job_id
            outcome = OUTCOMES_OF_JOBS[JOB_STATES.index(status.state)]
        else:
            op_id = status.op_id
        super().__init__(row.seq, 0, op_id, ClientRecord(status.client), outcome, 0)
        self.is_job = is_job
        self.place: int = row.place
        self.until_ms = row.until_ms


class RememberedReader:
    """Finds what `store` remembers for `state`. Raises StoreError."""

    def __init__(self, state: ServerState, store: Store) -> None:
        self._ids = state.remembered
        self._stamp = state.stamp
        self._store = store

    def find(self, op_id: str, owner: str | None = None) -> RememberedOutcome | None:
        """Return a remembered id, unless its period is over; `owner`: see `ServerState.find`."""
        places = self._ids.places(op_id)
        if not places:
            return None
        for row in self._store.remembered.read(places):
            if row.until_ms > self._stamp.now_ms:
                found = RememberedOutcome(row, _decoded(row))
                if found.op_id == op_id and owner in (None, found.client.name):
                    return found
        return None

    def operation(self, op_id: str, owner: str | None = None) -> OperationStatus | None:
        """Return a remembered operation's status; of a job, its operation's."""
        found = self.find(op_id, owner)
        status = None if found is None else self._status(found)
        return status_of_job(status) if isinstance(status, JobStatus) else status

    def job(self, found: RememberedOutcome) -> JobStatus | None:
        """Return a job's status; None: of an operation, or forgotten meanwhile."""
        status = self._status(found)
        return status if isinstance(status, JobStatus) else None

    def _status(self, found: RememberedOutcome) -> OperationStatus | JobStatus | None:
        rows = self._store.remembered.read([found.place])
        return _decoded(rows[0]) if rows else None

    def outcomes(self, records: Sequence[RememberedOutcome]) -> list[OutcomeMessage]:
        """Return outcomes of operations, except forgotten ones."""
        rows = self._store.remembered.read([record.place for record in records])
        return [_outcome(row) for row in rows if row.seq]


def status_of_job(job: JobStatus) -> OperationStatus:
    """Return a job's status as that of an operation."""
    is_by_key = job.state == "cancelled" and job.error.startswith(CANCELLED_BY_KEY)
    return OperationStatus(
        job.job_id,
        OUTCOMES_OF_JOBS[JOB_STATES.index(job.state)],
        job.kind,
        job.client,
        list(job.unless),
        0,
        job.submitted_ms,
        job.due_ms,
        job.ended_ms,
        job.error.removeprefix(CANCELLED_BY_KEY) if is_by_key else None,
        result=job.result,
        payload=job.payload,
    )


def _decoded(row: RememberedRow) -> OperationStatus | JobStatus:
    return _decode_operation(row.status) if row.seq else _decode_job(row.status)


def _outcome(row: RememberedRow) -> OutcomeMessage:
    status = _decode_operation(row.status)
    return OutcomeMessage(
        row.seq,
        status.op_id,
        status.state,
        status.at_ms or 0,
        status.by_key,
        status.result,
        status.kind,
        status.submitted_ms,
        status.deadline_ms,
        status.payload,
    )
