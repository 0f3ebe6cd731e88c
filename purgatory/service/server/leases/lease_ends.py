"""LeaseEnds: a transaction's changes of due jobs. Store thread alone.

Jobs change after the commit.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatory.service.protocol import NOTHING, How, LeaseEnd
from purgatory.service.server.journal.job_rows import JobRows
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.records.job_record import CANCELLED, DONE
from purgatory.service.server.server_health import RecentFailure
from purgatory.service.server.state import ServerState
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import KEPT_ATTEMPTS, JobState

LEASE_ENDED: Final = "LeaseEnded: the worker did not keep its lease"
WORKER_GONE: Final = "WorkerGone: the connection of the worker has ended"
NOT_BEGUN: Final = "not begun in time"
# Looked up once: Python 3.11 calls a function for each access to a member.
_DONE: Final = How.DONE
_RETURNED: Final = How.RETURNED
_JOB_DONE: Final = JobState.DONE
# Characters of an error kept with an attempt; the job keeps its last error.
_KEPT_ERROR: Final = 500


class LeaseEnds:
    """Changes of due jobs at `now_ms`, written to `changes`.

    A job, or its attempt, ends once in a transaction; a job that then waits may be cancelled or
    moved.
    """

    def __init__(self, state: ServerState, changes: Changes, now_ms: int) -> None:
        self._leases = state.leases
        self._retention = state.retention
        self._failures = state.failures
        self._timings = state.jobs.timings
        self._rows = JobRows(state.journal_numbers, changes)
        self._changes = changes
        self._now_ms = now_ms
        self._jobs: dict[int, DueJob] = {}  # changed ones, by number
        self._waits: dict[int, int] = {}  # of these, those that wait: number -> attempts
        self._cancelled: dict[int, str] = {}  # running last attempts: number -> reason
        self._not_begun: list[DueJob] = []
        self._effects: list[Callable[[], None]] = []

    def expire(self, grace_ms: int) -> None:
        """End overdue leases, and jobs not begun in time; `grace_ms`: see `LeaseTimes`."""
        for job in reversed(self._leases.lease_times.ended(self._now_ms, grace_ms)):
            if self._begin(job):
                self._effects.append(partial(self._leases.lapse, job))
                self._lose(job, LEASE_ENDED)
        self._not_begun = self._leases.times.take_not_begun(self._now_ms)
        for job in self._not_begun:
            # A change in this transaction counts: an attempt that has failed, or another time.
            if job.record.seq not in self._jobs and not self.recall(job):
                self.cancel(job, NOT_BEGUN)

    def lose(self, job: DueJob, error: str) -> None:
        """End a lost lease: an attempt has failed, if begun."""
        if self._begin(job):
            self._lose(job, error)

    def _lose(self, job: DueJob, error: str) -> None:
        if job.has_begun:
            self._fail(job, 0, error)
        else:
            self._return(job)

    def _return(self, job: DueJob) -> None:
        is_late = job.is_late(self._now_ms)
        if is_late or self.is_cancelled(job):
            self._effects.append(partial(self._leases.limits.give_back, job.kind))
            self._end_cancelled(job, job.attempts, NOT_BEGUN if is_late else self._reason(job))
        else:
            self._waits[job.record.seq] = job.attempts
            self._effects.append(partial(self._leases.put_back, job, counts=False))

    def finish(self, client: str, end: LeaseEnd) -> bool:
        """End a lease as its worker reports; False if it has ended."""
        job = self._leases.held(client, end.number, end.token)
        if job is None or not self._begin(job):
            return False
        if end.how == _RETURNED:
            self._return(job)
            return True
        if not job.has_begun:  # the end reports the beginning
            job.begun_ms = self._now_ms
        if end.how == _DONE:
            if job.attempts:
                self._keep_attempt(job, "")
            self._write(job, _JOB_DONE, job.attempts + 1, self._now_ms, "")
            if len(end.result) != 1 or bytes(end.result) != NOTHING:
                self._changes.results += (job.record.seq, bytearray(end.result))
            self._effects.append(partial(self._note_done, job))
        else:
            self._fail(job, end.delay_ms, end.error)
        return True

    def cancel(self, job: DueJob, reason: str) -> bool:
        """Cancel a job; False if it has ended, or is dead.

        Without a worker, the job ends at once. Else its attempt is the last, and the job is done if
        the handler succeeds; a worker that has not begun the handler gives the job back.
        """
        number = job.record.seq
        if number not in self._leases.by_number or job.is_dead:
            return False
        if number in self._jobs and number not in self._waits:
            return False  # ends in the transaction
        if job.holder is not None and number not in self._jobs:
            self._cancel_leased(job, reason)
            return True
        self._jobs[number] = job
        attempts = self._waits.pop(number, job.attempts)
        self._end_cancelled(job, attempts, reason)
        return True

    def _cancel_leased(self, job: DueJob, reason: str) -> None:
        if self.is_cancelled(job):
            return
        self._cancelled[job.record.seq] = reason
        self._write(job, JobState.CANCELLING, job.attempts, self._now_ms, reason)
        self._effects.append(partial(self._leases.cancel, job, reason))

    def write_begun(self) -> None:
        """Write begun jobs: else a restart would cancel them."""
        for job in self._leases.begun:
            number = job.record.seq
            is_alive = number in self._leases.by_number and number not in self._jobs
            if is_alive and not self.is_cancelled(job):
                self._changes.jobs += (number, int(JobState.WAITING), job.attempts, 0, "")
        self._effects.append(self._leases.begun.clear)

    def recall(self, job: DueJob) -> bool:
        """Ask the worker for a job not begun; False if no worker is asked."""
        if job.holder is None or job.has_begun or job.record.seq in self._jobs:
            return False
        self._leases.recall(job)
        return True

    def move(self, job: DueJob, at_ms: int) -> bool:
        """Move a job to `at_ms`, or now if that is over. False if it runs, or has ended.

        A leased job stays due now; see `recall` for a later time.
        """
        number = job.record.seq
        if number not in self._leases.by_number or job.is_dead or self.is_cancelled(job):
            return False
        if number not in self._waits:
            if number in self._jobs or job.has_begun:
                return False  # ends in the transaction, or runs
            if job.holder is not None:
                return at_ms <= self._now_ms
        self._jobs[number] = job
        attempts = self._waits.setdefault(number, job.attempts)
        at_ms = max(at_ms, self._now_ms)
        self._write(job, JobState.WAITING, attempts, at_ms, "")
        self._effects.append(partial(self._leases.move, job, at_ms, self._now_ms))
        return True

    def end_dead(self, number: int, *, drop: bool) -> bool:
        """Retry a dead job, or `drop` it; False if none exists."""
        job = self._leases.by_number.get(number)
        if job is None or not job.is_dead or not self._begin(job):
            return False
        if drop:
            self._write(job, JobState.DROPPED, job.attempts, self._now_ms, "")
            self._effects.append(partial(self._drop, job))
        else:
            self._write(job, JobState.WAITING, 0, 0, "")
            self._changes.trim_attempts.append(number)
            self._effects.append(partial(self._leases.revive, job))
        return True

    def _begin(self, job: DueJob) -> bool:
        """Note that a job changes; False if it has changed."""
        number = job.record.seq
        if number in self._jobs:
            return False
        self._jobs[number] = job
        return True

    def is_cancelled(self, job: DueJob) -> bool:
        """Whether the present attempt is the last."""
        return job.is_cancelled or job.record.seq in self._cancelled

    def _reason(self, job: DueJob) -> str:
        return self._cancelled.get(job.record.seq, job.cancel_reason)

    def _fail(self, job: DueJob, delay_ms: int, error: str) -> None:
        attempts = job.attempts + 1
        self._keep_attempt(job, error)
        is_cancelled = self.is_cancelled(job)
        is_dead = attempts >= job.max_attempts and not is_cancelled
        self._effects.append(partial(self._note_failure, job, error, attempts, is_dead=is_dead))
        if is_cancelled:
            self._end_cancelled(job, attempts, self._reason(job))
            return
        if is_dead:
            self._write(job, JobState.DEAD, attempts, self._now_ms, error)
            self._effects.append(partial(self._leases.give_up, job))
            return
        at_ms = self._now_ms + delay_ms if delay_ms else 0
        self._write(job, JobState.WAITING, attempts, at_ms, error)
        self._waits[job.record.seq] = attempts
        self._effects.append(partial(self._leases.put_back, job, counts=True, at_ms=at_ms))

    def _keep_attempt(self, job: DueJob, error: str) -> None:
        seq, number = job.record.seq, job.attempts + 1
        worker = "" if job.holder is None else job.holder.route.hex()
        row = (seq, job.token, number, job.begun_ms, self._now_ms)
        self._changes.attempts += (*row, worker, error[:_KEPT_ERROR])
        if number % KEPT_ATTEMPTS == 0:
            self._changes.trim_attempts.append(seq)

    def _end_cancelled(self, job: DueJob, attempts: int, reason: str) -> None:
        self._write(job, JobState.CANCELLED, attempts, self._now_ms, reason)
        self._effects.append(partial(self._forget, job, CANCELLED))

    def _note_done(self, job: DueJob) -> None:
        self._note_attempt(job, failed=False)
        self._forget(job)

    def _note_attempt(self, job: DueJob, *, failed: bool) -> None:
        queued_ms, ran_ms = job.begun_ms - job.ready_ms, self._now_ms - job.begun_ms
        self._timings.end_attempt(job.kind, queued_ms, ran_ms, failed=failed)

    def _note_failure(self, job: DueJob, error: str, attempt: int, *, is_dead: bool) -> None:
        self._note_attempt(job, failed=True)
        record = job.record
        name = record.client.name
        failure = (self._now_ms, record.op_id, job.kind, name, error, attempt, is_dead)
        self._failures.add(RecentFailure(*failure))

    def _forget(self, job: DueJob, state: int = DONE) -> None:
        self._leases.finish(job, state)
        self._retention.end_job(job.record, self._now_ms)

    def _drop(self, job: DueJob) -> None:
        self._leases.finish(job, CANCELLED)
        self._retention.drop_job(job.record, self._now_ms)

    def _write(self, job: DueJob, state: JobState, attempts: int, at_ms: int, error: str) -> None:
        self._changes.jobs += (job.record.seq, int(state), attempts, at_ms, error)
        self._rows.add_end(job, state, attempts, at_ms, error)

    def publish(self) -> None:
        """Change the jobs, after the commit."""
        for effect in self._effects:
            effect()
        self._effects.clear()  # some refer to this object: a cycle

    def roll_back(self) -> None:
        """Leave the jobs unchanged: their leases end later."""
        self._effects.clear()  # see `publish`
        for job in self._jobs.values():
            if job.holder is not None:
                self._leases.lease_times.watch(job)
        for job in self._not_begun:
            self._leases.times.watch_start(job)
