"""LeaseEnds: what one transaction changes of jobs that are due.

Rows are written to the transaction's changes, and the jobs change when these are on disk. Used by
the store thread alone.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from purgatory.service.protocol import How, LeaseEnd
from purgatory.service.server.leases.job_group import DueJob
from purgatory.service.server.leases.job_leases import JobLeases
from purgatory.service.server.records.retention import OutcomeRetention
from purgatory.service.server.server_health import RecentFailure, RecentFailures
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import JobState

LEASE_ENDED: Final = "LeaseEnded: the worker did not keep its lease"
WORKER_GONE: Final = "WorkerGone: the connection of the worker has ended"


class LeaseEnds:
    """The ends of leases, and of dead jobs, in a transaction at `now_ms` that writes `changes`."""

    def __init__(
        self,
        leases: JobLeases,
        retention: OutcomeRetention,
        failures: RecentFailures,
        changes: Changes,
        now_ms: int,
    ) -> None:
        self._leases = leases
        self._retention = retention
        self._failures = failures
        self._changes = changes
        self._now_ms = now_ms
        self._jobs: dict[int, DueJob] = {}  # by number: each changes once
        self._effects: list[Callable[[], None]] = []

    def expire(self, grace_ms: int) -> None:
        """End the leases whose time is over; `grace_ms`: see `JobLeases.ended`."""
        for job in self._leases.ended(self._now_ms, grace_ms):
            if self._begin(job):
                self._effects.append(partial(self._leases.lapse, job))
                self._fail(job, 0, LEASE_ENDED)

    def lose(self, job: DueJob, error: str) -> None:
        """End a lease that the worker has lost: the attempt has failed."""
        if self._begin(job):
            self._fail(job, 0, error)

    def finish(self, client: str, end: LeaseEnd) -> bool:
        """End a lease as its worker says; False if it has ended before."""
        job = self._leases.held(client, end.number, end.token)
        if job is None or not self._begin(job):
            return False
        if end.how == How.DONE:
            self._write(job, JobState.DONE, job.attempts + 1, self._now_ms, "")
            self._effects.append(partial(self._forget, job))
        elif end.how == How.RETURNED:
            self._effects.append(partial(self._leases.put_back, job, counts=False))
        else:
            self._fail(job, end.delay_ms, end.error)
        return True

    def end_dead(self, client: str, number: int, *, drop: bool) -> bool:
        """Have a dead job tried again or, with `drop`, forgotten; False if there is none."""
        job = self._leases.dead_job(client, number)
        if job is None or not self._begin(job):
            return False
        if drop:
            self._write(job, JobState.DONE, job.attempts, self._now_ms, "")
            self._effects.append(partial(self._forget, job))
        else:
            self._write(job, JobState.WAITING, 0, 0, "")
            self._effects.append(partial(self._leases.revive, job))
        return True

    def _begin(self, job: DueJob) -> bool:
        """Note that a job changes; False if it does so already."""
        number = job.record.seq
        if number in self._jobs:
            return False
        self._jobs[number] = job
        return True

    def _fail(self, job: DueJob, delay_ms: int, error: str) -> None:
        """End an attempt that has failed; the last one was the last."""
        attempts = job.attempts + 1
        is_dead = attempts >= job.max_attempts
        self._effects.append(partial(self._note_failure, job, error, attempts, is_dead=is_dead))
        if is_dead:
            self._write(job, JobState.DEAD, attempts, self._now_ms, error)
            self._effects.append(partial(self._leases.give_up, job))
            return
        at_ms = self._now_ms + delay_ms if delay_ms else 0
        self._write(job, JobState.WAITING, attempts, at_ms, error)
        self._effects.append(partial(self._leases.put_back, job, counts=True, at_ms=at_ms))

    def _note_failure(self, job: DueJob, error: str, attempt: int, *, is_dead: bool) -> None:
        record = job.record
        name = record.client.name
        failure = (self._now_ms, record.op_id, job.kind, name, error, attempt, is_dead)
        self._failures.add(RecentFailure(*failure))

    def _forget(self, job: DueJob) -> None:
        self._leases.finish(job)
        self._retention.end_job(job.record, self._now_ms)

    def _write(self, job: DueJob, state: JobState, attempts: int, at_ms: int, error: str) -> None:
        self._changes.jobs += (job.record.seq, int(state), attempts, at_ms, error)

    def publish(self) -> None:
        """Change the jobs: that is on disk."""
        for effect in self._effects:
            effect()

    def roll_back(self) -> None:
        """Leave the jobs as they are; leases that have ended by time end a little later."""
        for job in self._jobs.values():
            if job.holder is not None:
                self._leases.watch_again(job)
