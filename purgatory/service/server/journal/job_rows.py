"""JobRows: queues ends of jobs for the journal, in a transaction. Store thread alone.

A job may be forgotten before the journal has its end.
"""

from typing import Final

from purgatory.service.job_messages import CANCELLED_BY_KEY
from purgatory.service.server.journal.journal_numbers import JournalNumbers
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.records.job_record import JobRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import JobState, QueuedJob, StoredOperation
from purgatory.trace import validation

_ENDS: Final[dict[int, str]] = {
    JobState.DONE: validation.DONE,
    JobState.DEAD: validation.DEAD,
    JobState.CANCELLED: validation.CANCELLED,
}


class JobRows:
    """Adds numbered rows to `changes`, if a journal is used."""

    def __init__(self, numbers: JournalNumbers, changes: Changes) -> None:
        self._numbers = numbers
        self._changes = changes

    def add_end(
        self, due: DueJob, state: JobState, attempts: int, ended_ms: int, error: str
    ) -> None:
        """Queue a due job, if `state` is an end."""
        job, end = due.record.job, _ENDS.get(state)
        if job is None or end is None or not self._numbers.is_used:
            return
        by_attempt = due.has_begun or state != JobState.CANCELLED
        began_ms = due.begun_ms if by_attempt else 0
        worker = "" if due.holder is None else due.holder.route.hex()
        # An attempt at once leaves the job's due time as it was.
        is_again = by_attempt and due.ready_ms > due.record.ended_ms
        due_ms = due.ready_ms if is_again else job.due_ms
        self._add(job, end, due_ms, began_ms, ended_ms, attempts, worker, error)

    def add_cancelled(self, operation: PendingOperation, ended_ms: int) -> None:
        """Queue a job cancelled before it was due."""
        job, key = operation.job, operation.by_key
        if job is not None:
            error = f"{CANCELLED_BY_KEY}{key}" if key else validation.CANCELLED
            self.add_unbegun(job, ended_ms, error)

    def add_unbegun(self, job: JobRecord, ended_ms: int, error: str) -> None:
        """Queue a job cancelled before a first attempt."""
        if self._numbers.is_used:
            self._add(job, validation.CANCELLED, job.due_ms, 0, ended_ms, 0, "", error)

    def add_stored(self, row: StoredOperation, attempts: int, ended_ms: int, error: str) -> None:
        """Queue a cancelled job from the store."""
        job = JobRecord(row.number, row.op_id, row.client, row.kind, row.deadline_ms, row.options)
        job.submitted_ms = row.submitted_ms
        self._add(job, validation.CANCELLED, job.due_ms, 0, ended_ms, attempts, "", error)

    def _add(
        self,
        job: JobRecord,
        state: str,
        due_ms: int,
        began_ms: int,
        ended_ms: int,
        attempts: int,
        worker: str,
        error: str,
    ) -> None:
        queued = QueuedJob(
            self._numbers.next_job(),
            job.op_id,
            job.kind,
            state,
            job.client,
            job.tags,
            job.submitted_ms,
            due_ms,
            began_ms,
            ended_ms,
            attempts,
            worker,
            error,
        )
        self._changes.queued_jobs.append(queued)
