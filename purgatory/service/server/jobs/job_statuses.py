"""The statuses of jobs, from memory and from the store. Store thread alone."""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from purgatory.service.job_messages import CANCELLED_BY_KEY, JOB_STATES, JobAttempt, JobStatus
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import CANCELLED, DONE, JobRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.server_health import failure_text
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import KEPT_ATTEMPTS, StoredAttempt, StoredOutcome

#: Jobs read at once, at most.
MOST: Final = 500
#: Why a job was cancelled, by default.
BY_REQUEST: Final = "cancelled"


def job_statuses(
    entries: Sequence[PendingOperation | OutcomeRecord],
    state: ServerState,
    store: Store,
    *,
    with_history: bool = False,
) -> list[JobStatus]:
    """Return the statuses of at most MOST jobs, in order, without jobs whose rows are gone.

    `with_history`: with attempts. Raises StoreError.
    """
    rows = store.by_numbers([entry.number for entry in entries])
    seqs = [entry.seq for entry in entries if isinstance(entry, OutcomeRecord)]
    due_rows = store.job_rows(seqs) if seqs else {}
    results = store.results(seqs) if seqs else {}
    attempts = store.attempts(list(due_rows)) if with_history and due_rows else {}
    early = [
        entry.seq
        for entry in entries
        if isinstance(entry, OutcomeRecord) and entry.outcome != "expired"
    ]
    cancelled = {one.seq: one for one, _ in store.outcomes_by_seqs(early)} if early else {}
    found: list[JobStatus] = []
    for entry in entries:
        job, row = entry.job, rows.get(entry.number)
        if job is None or row is None:
            continue
        status = _status(job)
        status.submitted_ms = row.submitted_ms
        if row.payload:
            status.payload = Raw(row.payload)
        if isinstance(entry, OutcomeRecord):
            if entry.seq in due_rows:
                _add_row(status, job, due_rows[entry.seq])
            elif entry.seq in cancelled:
                _add_cancellation(status, cancelled[entry.seq])
            if entry.seq in results:
                status.result = Raw(results[entry.seq])
            due = state.leases.by_number.get(entry.seq)
            if due is not None:
                _add_due(status, due)
                status.why = state.leases.why(due, state.stamp.now_ms)
            if with_history:
                _add_history(status, attempts.get(entry.seq, []))
        found.append(status)
    return found


def _status(job: JobRecord) -> JobStatus:
    status = JobStatus(job.op_id, JOB_STATES[job.state], job.number, job.kind, job.client)
    status.tags = job.tags
    status.unless = job.keys if job.has_unless else ()
    status.priority = job.priority
    status.due_ms = job.due_ms
    status.began_ms = job.began_ms or None
    return status


def _add_row(status: JobStatus, job: JobRecord, row: tuple[int, int, int, str]) -> None:
    _, status.attempts, at_ms, status.error = row
    if job.state >= DONE:
        status.ended_ms = at_ms
    if job.state == CANCELLED:
        status.error = status.error or BY_REQUEST


def _add_cancellation(status: JobStatus, outcome: StoredOutcome) -> None:
    status.ended_ms = outcome.at_ms
    if outcome.by_key is not None:
        status.error = CANCELLED_BY_KEY + outcome.by_key
    elif outcome.result:  # an older server stored no key
        status.error = failure_text(outcome.result)
    else:
        status.error = BY_REQUEST


def _add_history(status: JobStatus, kept: list[StoredAttempt]) -> None:
    found = [
        JobAttempt(row.number, row.began_ms, row.ended_ms, row.worker, row.error) for row in kept
    ]
    number = status.attempts
    is_kept = bool(found) and found[-1].number == number and not found[-1].error
    if status.began_ms is not None and status.state in ("running", "done") and not is_kept:
        found.append(JobAttempt(number, status.began_ms, status.ended_ms, status.worker, ""))
    status.history = tuple(found[-KEPT_ATTEMPTS:])


def _add_due(status: JobStatus, due: DueJob) -> None:
    status.attempts = due.begun_attempts
    if due.token:
        status.max_attempts = due.max_attempts
    if due.holder is not None and due.has_begun:
        status.worker = due.holder.route.hex()
