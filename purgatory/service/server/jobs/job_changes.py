"""JobChanges: a transaction's changes of jobs. Store thread alone.

A job may be scheduled, due before this transaction (see `LeaseEnds`), or due in it.
"""

from purgatory.service.job_messages import CANCELLED_BY_KEY
from purgatory.service.server.journal.job_rows import JobRows
from purgatory.service.server.leases.due_job import due_job_of
from purgatory.service.server.leases.lease_ends import LeaseEnds
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import CANCELLED, READY, JobRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import JobState


class JobChanges:
    """Changes of jobs at `now_ms`, written to `changes`."""

    def __init__(self, state: ServerState, changes: Changes, now_ms: int) -> None:
        self._state = state
        self._changes = changes
        self._now_ms = now_ms
        #: None while no lease has ended.
        self.made_lease_ends: LeaseEnds | None = None
        # Changed jobs due in the transaction: number -> new due time; None: cancelled.
        self._just_due: dict[int, int | None] = {}

    @property
    def lease_ends(self) -> LeaseEnds:
        """The ends of leases, and of dead jobs."""
        ends = self.made_lease_ends
        if ends is None:
            ends = self.made_lease_ends = LeaseEnds(self._state, self._changes, self._now_ms)
        return ends

    def cancel(self, entry: PendingOperation | OutcomeRecord | None, reason: str) -> bool:
        """Cancel a job; False if it has ended, or is dead."""
        if entry is None or entry.job is None:
            return False
        if isinstance(entry, PendingOperation):
            return entry.cancel()
        due = self._state.leases.by_number.get(entry.seq)
        if due is not None:
            return self.lease_ends.cancel(due, reason)
        if not self._is_just_due(entry):
            return False
        self._just_due[entry.seq] = None
        self._changes.jobs += (entry.seq, int(JobState.CANCELLED), 0, self._now_ms, reason)
        rows = JobRows(self._state.journal_numbers, self._changes)
        rows.add_unbegun(entry.job, self._now_ms, reason)
        return True

    def move(self, record: OutcomeRecord, at_ms: int) -> bool:
        """Move a due job to `at_ms`; False if it runs, or has ended."""
        due = self._state.leases.by_number.get(record.seq)
        if due is not None:
            return self.lease_ends.move(due, at_ms)
        if not self._is_just_due(record):
            return False
        at_ms = max(at_ms, self._now_ms)
        self._just_due[record.seq] = at_ms
        self._changes.jobs += (record.seq, int(JobState.WAITING), 0, at_ms, "")
        return True

    def recall(self, entry: PendingOperation | OutcomeRecord | None, at_ms: int) -> bool:
        """Ask a worker for a job, before a move to `at_ms`; False if none has to be asked."""
        if not isinstance(entry, OutcomeRecord) or at_ms <= self._now_ms:
            return False
        due = self._state.leases.by_number.get(entry.seq)
        return due is not None and self.lease_ends.recall(due)

    def _is_just_due(self, record: OutcomeRecord) -> bool:
        return (
            record.job is not None
            and record.job.is_alive
            and record.outcome == "expired"
            and self._just_due.get(record.seq, 0) is not None
        )

    def cancel_due(self, due: list[OutcomeRecord], key: str, units: int) -> int:
        """Cancel up to `units` jobs of `due_by_key`, all if negative; return how many."""
        count = 0
        for entry in due:
            if count == units:
                break
            count += self.cancel(entry, CANCELLED_BY_KEY + key)
        return count

    def due_by_key(self, key: str) -> list[OutcomeRecord]:
        """Return the due jobs with `key` in `unless` that an event cancels, oldest first."""
        due = [entry for entry in self._state.due_jobs(key) if self.is_cancellable(entry)]
        has_left = self._state.spreads.has_job
        return [entry for entry in due if not has_left(entry.seq)]

    def is_cancellable(self, record: OutcomeRecord) -> bool:
        """Whether a due job does not run, and was not cancelled before."""
        due = self._state.leases.by_number.get(record.seq)
        return due is None or not (due.has_begun or self.lease_ends.is_cancelled(due))

    def publish_due(self, record: OutcomeRecord, job: JobRecord) -> None:
        """Publish a job that became due in the transaction."""
        state = self._state
        at_ms = self._just_due.get(record.seq, 0)
        if at_ms is None:
            state.jobs.set_state(job, CANCELLED)
            state.retention.end_job(record, self._now_ms)
            return
        state.jobs.set_state(job, READY)
        due = due_job_of(record, moved_ms=at_ms)
        state.leases.add(due, at_ms if at_ms > self._now_ms else 0)
