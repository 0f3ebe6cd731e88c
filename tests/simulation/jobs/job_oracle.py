"""JobOracle: what is promised of jobs, checked against what their workers were told.

Leases are judged by their tokens, which grow, and by time where nothing has been wrong for a while:
then a lease that its worker keeps is no other's.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.job_messages import JobStatus
from purgatory.service.protocol import How
from purgatory.testing.world.world import NS_PER_MS, World
from tests.simulation.jobs.job_records import JobRecord, LeaseRecord
from tests.simulation.oracle import PROMPT_NS, Oracle
from tests.simulation.programs.retry_delays import RetryDelays
from tests.simulation.records import NEVER
from tests.simulation.troubles import Troubles

# The service counts in whole milliseconds, and cuts off the rest of one.
_ROUNDING_NS: Final = NS_PER_MS
# A worker keeps a lease after a third of it: one that is so long does not end in a calm world.
_LONG_LEASE_NS: Final = 3 * PROMPT_NS

# So long a lease may be under way to its worker: meanwhile a key may have cancelled the job.
_UNDER_WAY_NS: Final = PROMPT_NS


class JobOracle:
    """Takes note of jobs and leases; what is wrong goes to `oracle`."""

    def __init__(
        self,
        world: World,
        troubles: Troubles,
        oracle: Oracle,
        max_attempts: int,
        retry_delays: RetryDelays,
    ) -> None:
        self._world = world
        self._troubles = troubles
        self._oracle = oracle
        self._max_attempts = max_attempts
        self._retry_delays = retry_delays
        self.jobs: dict[str, JobRecord] = {}
        #: Those that the server has said at the end to be dead.
        self.dead: dict[str, JobStatus] = {}

    def _fail(self, job: JobRecord, what: str) -> None:
        self._oracle.report(f"{what}: {job}")

    # What programs do

    def schedule(self, job: JobRecord) -> None:
        """Note that a job is scheduled."""
        self.jobs[job.job_id] = job
        self._world.note(f"jobs: schedules {job.job_id} in {job.delay_ns // NS_PER_MS} ms")

    def scheduled(self, job: JobRecord, state: str) -> None:
        """Note that its scheduling was acknowledged."""
        self._world.note(f"jobs: {job.job_id} is {state}")
        if not job.is_answered:
            job.replied_ns, job.answer = self._world.now_ns, state

    # What workers are told, and do

    def leased(self, worker: str, job_id: str, token: int, attempt: int, lease_ns: int) -> None:
        """Check a lease that comes to a worker."""
        self._world.note(f"{worker}: leases {job_id} attempt={attempt} token={token}")
        job = self.jobs.get(job_id)
        if job is None:
            self._oracle.report(f"{worker} was leased {job_id!r}, which no program has scheduled")
            return
        now_ns = self._world.now_ns
        lease = LeaseRecord(token, attempt, worker, lease_ns, now_ns, now_ns)
        self._check_lease(job, lease)
        job.leases[token] = lease

    def _check_lease(self, job: JobRecord, lease: LeaseRecord) -> None:
        due_ns = job.called_ns + job.delay_ns - self._oracle.lost_time_ns() - _ROUNDING_NS
        if lease.given_ns < due_ns:
            self._fail(job, f"leased {(due_ns - lease.given_ns) / 1e6:g} ms early")
        if lease.token in job.leases:
            self._fail(job, f"leased twice under token {lease.token}")
        if lease.attempt > self._max_attempts:
            self._fail(job, f"attempt {lease.attempt} of {self._max_attempts}")
        if 0 <= job.done_token < lease.token:
            self._fail(job, f"leased again, though done under token {job.done_token}")
        # A lease may wait for long in the socket of a worker that is stopped; a request may end the
        # job meanwhile, and what such a worker says then is refused.
        if job.had_ended(lease.given_ns - _UNDER_WAY_NS) and self._was_calm(lease.given_ns):
            self._fail(job, "leased, though it had ended before")
        if not job.revivals:
            self._check_attempts(job, lease)
        before = [one for one in job.leases.values() if one.token < lease.token]
        if before:
            self._check_alone(job, max(before, key=lambda one: one.token))
        for one in before:
            self._check_retry(job, one, lease)

    def _check_retry(self, job: JobRecord, failed: LeaseRecord, lease: LeaseRecord) -> None:
        """Check that a job was not leased again before its delay after a failure was over.

        Judged if the server has said that it has noted the failure, and no call has had a dead job
        tried again.
        """
        if failed.how is not How.FAILED or not failed.taken or job.revivals:
            return
        # A restart may cut off a part of a millisecond more.
        early_ns = failed.retry_ns - lease.given_ns - self._oracle.lost_time_ns() - 2 * _ROUNDING_NS
        if early_ns > 0:
            self._fail(job, f"tried again {early_ns / 1e6:g} ms early, after {failed}")

    def _check_attempts(self, job: JobRecord, lease: LeaseRecord) -> None:
        """Check that no attempt was forgotten."""
        for other in job.leases.values():
            failed = other.how is How.FAILED and other.taken is True
            if other.token > lease.token:  # it came before, and was given after
                if other.attempt < lease.attempt:
                    self._fail(job, f"attempt {lease.attempt}, and then {other.attempt}")
            elif lease.attempt < other.attempt + failed:
                self._fail(job, f"attempt {other.attempt}, and then {lease.attempt}")

    def _check_alone(self, job: JobRecord, last: LeaseRecord) -> None:
        """Check, when a job is leased again, that the lease before had ended."""
        now_ns = self._world.now_ns
        if last.how is not None or not self._was_calm(last.given_ns):
            return
        lasts = now_ns < last.kept_ns + last.lease_ns - PROMPT_NS
        if lasts or last.lease_ns >= _LONG_LEASE_NS:
            self._fail(job, f"leased again, though {last.worker} had it")

    def _was_calm(self, start_ns: int) -> bool:
        """Whether nothing was wrong since then, nor is."""
        lasting_ns = self._world.now_ns - start_ns + 1
        return self._troubles.end_of_calm(start_ns, lasting_ns) == start_ns + lasting_ns

    def begun(self, worker: str, job_id: str, token: int) -> JobRecord:
        """Check that a handler may begin; returns its job."""
        self._world.note(f"{worker}: begins {job_id} token={token}")
        job = self.jobs[job_id]
        lease = job.leases[token]
        lease.begun_ns = self._world.now_ns
        late_ns = lease.begun_ns - lease.kept_ns - lease.lease_ns - _ROUNDING_NS
        if late_ns > 0:
            self._fail(job, f"{worker} begins it {late_ns / 1e9:g} s after its lease has ended")
        return job

    def returned(self, worker: str, job_id: str, error: Exception | None) -> None:
        """Note the end of a handler."""
        self.jobs[job_id].returns += error is None
        self._world.note(f"{worker}: {'returns from' if error is None else 'raises in'} {job_id}")

    def keeps(self, job_id: str, token: int) -> Callable[[bool | None], None]:
        """Note that a worker asks to keep a lease; returns what takes the answer."""
        job, called_ns = self.jobs[job_id], self._world.now_ns
        is_old = job.last_token > token

        def answered(kept: bool | None) -> None:
            if kept and is_old:
                self._fail(job, f"the lease with token {token} was kept, and was another's")
            if kept:
                job.leases[token].kept_ns = called_ns

        return answered

    def ends(
        self, worker: str, job_id: str, token: int, how: How, delay_ms: int = 0
    ) -> Callable[[bool | None], None]:
        """Note that a worker ends a lease; returns what takes the answer, None for a refusal.

        `delay_ms`: if it has failed, the next attempt is not before.
        """
        job = self.jobs[job_id]
        if how is How.DONE and not job.returns:
            self._fail(job, f"{worker} says that it is done, and no handler has returned")
        lease = job.leases[token]
        if how is How.FAILED:
            self._note_delay(job, lease, delay_ms)
        lease.how, lease.taken = how, None
        is_old = job.last_token > token

        def answered(taken: bool | None) -> None:
            if taken is None:
                lease.how = None
                return
            self._world.note(f"{worker}: {job_id} {_told(how, taken=taken)}")
            lease.taken = taken
            if taken:
                self._check_taken(job, lease, how, is_old=is_old)
            elif lease.lease_ns >= _LONG_LEASE_NS and self._was_calm(lease.given_ns):
                self._fail(job, f"{worker} kept its lease with token {token}, and it had ended")

        return answered

    def _note_delay(self, job: JobRecord, lease: LeaseRecord, delay_ms: int) -> None:
        """Check for how long a worker has a job wait; what it asks first is what counts.

        It may have been leased the job again while its handler ran.
        """
        mine = [one for one in job.leases.values() if one.worker == lease.worker]
        begun = [one for one in mine if one.begun_ns != NEVER and one.token <= lease.token]
        attempt = max(begun, key=lambda one: one.token, default=lease).attempt
        shortest_ms, longest_ms = self._retry_delays.bounds_ms(attempt)
        if not shortest_ms <= delay_ms <= longest_ms:
            expected = f"{shortest_ms} to {longest_ms} ms"
            self._fail(job, f"waits {delay_ms} ms after attempt {attempt}, not {expected}")
        if lease.retry_ns == NEVER:
            lease.retry_ns = self._world.now_ns + delay_ms * NS_PER_MS

    def _check_taken(self, job: JobRecord, lease: LeaseRecord, how: How, *, is_old: bool) -> None:
        """Check an end that the server has on disk, as it says; `is_old`: when it was asked for."""
        is_done = how is How.DONE
        if is_old or (is_done and job.last_token > lease.token):
            self._fail(job, f"ended under the old token {lease.token}")
        if job.done_token >= 0 and (is_done or lease.token > job.done_token):
            self._fail(job, f"ended under token {lease.token}, though it was done")
        if is_done:
            job.done_token = lease.token
        for other in job.leases.values():
            if other.token > lease.token:
                self._check_retry(job, lease, other)

    # What must be true at the end

    def check_all(self) -> None:
        """Check that each job was done, or is dead after its last attempt."""
        for job in self.jobs.values():
            dead = self.dead.get(job.job_id)
            if dead is not None:
                self._check_dead(job, dead)
            elif job.refused or not (job.is_answered or job.leases):
                continue
            elif job.done_token < 0 and not job.is_ended and not job.may_be_over:
                self._fail(job, "was neither done, nor is it dead")

    def _check_dead(self, job: JobRecord, dead: JobStatus) -> None:
        if dead.attempts != self._max_attempts:
            self._fail(job, f"dead after {dead.attempts} of {self._max_attempts} attempts")
        if job.done_token >= 0 or job.is_ended:
            self._fail(job, "dead, though it was done, or had ended")
        if any(call.answer for call in job.drops):
            self._fail(job, "dead, though it was dropped")


def _told(how: How, *, taken: bool) -> str:
    """Return how the history tells an end."""
    if not taken:
        return f"is lost, before it was {how.name.lower()}"
    return {How.DONE: "completed", How.FAILED: "failed", How.RETURNED: "is given back"}[how]
