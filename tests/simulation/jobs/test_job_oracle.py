"""JobOracle: each promise about jobs that it checks, kept and broken."""

import pytest

from purgatory.service.job_messages import JobStatus
from purgatory.service.protocol import How
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.jobs.job_oracle import JobOracle
from tests.simulation.jobs.job_records import JobRecord
from tests.simulation.oracle import Oracle
from tests.simulation.programs.retry_delays import RetryDelays
from tests.simulation.records import CallRecord
from tests.simulation.troubles import Troubles

LEASE_NS = 20 * NS_PER_S
NO_DELAYS = RetryDelays(0.0, 0.0)


class Bench:
    """An oracle of jobs with three attempts; `token` is of the last lease."""

    def __init__(self, world, delays=NO_DELAYS):
        self.world = world
        world.run(100)
        self.troubles = Troubles(world)
        self.judge = Oracle(world, self.troubles)
        self.oracle = JobOracle(world, self.troubles, self.judge, 3, delays)
        self.token = 0

    def schedule(self, delay=1, wait=2):
        job = JobRecord(
            self.world.now_ns, job_id=f"j{len(self.oracle.jobs)}", delay_ns=delay * NS_PER_S
        )
        self.oracle.schedule(job)
        self.oracle.scheduled(job, "pending")
        self.world.run(wait)
        return job

    def lease(self, job, worker="w", attempt=1, token=None):
        self.token = self.token + 1 if token is None else token
        self.oracle.leased(worker, job.job_id, self.token, attempt, LEASE_NS)
        return self.token

    def run(self, job, token, error=None):
        self.oracle.begun("w", job.job_id, token)
        self.oracle.returned("w", job.job_id, error)

    def end(self, job, token, how=How.DONE, *, taken=True, delay_ms=0):
        self.oracle.ends("w", job.job_id, token, how, delay_ms)(taken)

    def do(self, job, **lease):
        token = self.lease(job, **lease)
        self.run(job, token)
        self.end(job, token)
        return token

    def die(self, job, attempts=3):
        self.oracle.dead[job.job_id] = JobStatus(job.job_id, "dead", attempts=attempts)

    @property
    def broken(self):
        self.oracle.check_all()
        return "" if self.judge.violation is None else str(self.judge.violation)


@pytest.fixture
def bench(world):
    return Bench(world)


def test_nothing_is_broken(bench):
    """Jobs are done, at once or after a retry; one dies, one is cancelled; one lease is kept."""
    bench.do(bench.schedule())
    job = bench.schedule()
    for attempt in (1, 2, 3):
        token = bench.lease(job, attempt=attempt)
        bench.run(job, token, ValueError())
        bench.end(job, token, How.FAILED)
    bench.die(job)
    cancelled = bench.schedule(delay=50)
    cancelled.ends.append(CallRecord(0, 1, answer=True))
    long = bench.schedule()
    token = bench.lease(long)
    bench.world.run(15)
    keep = bench.oracle.keeps(long.job_id, token)
    bench.world.run(1)
    keep(True)
    bench.world.run(18)
    bench.run(long, token)
    bench.end(long, token)
    assert bench.broken == ""


def test_a_job_that_is_lost(bench):
    """It was acknowledged, and is neither done nor dead; that a call may have ended it excuses."""
    job = bench.schedule()
    job.ends.append(CallRecord(0))
    assert bench.broken == ""
    job.ends[0].replied_ns, job.ends[0].answer = 5, False
    assert "was neither done, nor is it dead" in bench.broken


def test_an_end_that_is_not_known(bench):
    """Without an answer the job may be done; if the end was not taken, it is not."""
    job = bench.schedule()
    token = bench.lease(job)
    bench.troubles.add()
    bench.run(job, token)
    note = bench.oracle.ends("w", job.job_id, token, How.DONE)
    assert bench.broken == ""
    note(False)
    assert "was neither done" in bench.broken


def test_an_end_that_is_refused(bench):
    """The worker is to send it again: nothing has ended."""
    job = bench.schedule()
    token = bench.lease(job)
    bench.run(job, token)
    bench.end(job, token, taken=None)
    assert "was neither done" in bench.broken


def test_a_lease_that_ends_too_early(bench):
    """In a calm world the worker has kept it."""
    job = bench.schedule()
    token = bench.lease(job)
    bench.run(job, token)
    bench.end(job, token, taken=False)
    assert "kept its lease with token 1, and it had ended" in bench.broken


@pytest.mark.parametrize(
    ("words", "break_it"),
    [
        ("ms early", lambda bench: bench.lease(bench.schedule(delay=10))),
        ("attempt 4 of 3", lambda bench: bench.lease(bench.schedule(), attempt=4)),
        ("which no program has scheduled", lambda bench: bench.lease(JobRecord(0, job_id="x"))),
    ],
)
def test_a_lease_that_must_not_be(bench, words, break_it):
    """Before the job is due, after its last attempt, or of no job."""
    break_it(bench)
    assert words in bench.broken


def test_one_token_twice(bench):
    """Each lease has another one."""
    job = bench.schedule()
    bench.lease(job, token=7)
    bench.lease(job, token=7)
    assert "leased twice under token 7" in bench.broken


def test_two_workers(bench):
    """A lease that lasts is no other's; in trouble it may have ended."""
    job, other = bench.schedule(), bench.schedule()
    bench.lease(job)
    bench.lease(other)
    bench.world.run(5)
    bench.troubles.add()
    bench.lease(job, "v")
    assert bench.judge.violation is None
    bench.world.run(100)
    bench.lease(other, "v")
    bench.world.run(1)
    bench.lease(other, "u")
    assert "leased again, though v had it" in bench.broken


def test_a_job_that_was_done(bench):
    """It is leased no more, and not ended again."""
    job = bench.schedule()
    bench.do(job)
    bench.lease(job)
    assert "leased again, though done under token 1" in bench.broken


def test_a_job_that_was_cancelled(bench):
    """It is leased to no worker, but for a lease that is under way."""
    job = bench.schedule()
    job.ends.append(CallRecord(0, bench.world.now_ns, answer=True))
    bench.lease(job)
    assert bench.judge.violation is None
    bench.world.run(6)
    bench.lease(job)
    assert "had ended before" in bench.broken


def test_an_attempt_that_is_forgotten(bench):
    """After one that has failed comes the next, unless the job was sent again."""
    job, revived = bench.schedule(), bench.schedule()
    revived.revivals.append(CallRecord(0))
    for one in (revived, job):
        token = bench.lease(one)
        bench.run(one, token, ValueError())
        bench.end(one, token, How.FAILED)
        assert bench.judge.violation is None
        bench.lease(one)
    assert "attempt 1, and then 1" in bench.broken


def test_a_retry_that_comes_too_early(world):
    """A job that has failed waits as long as its worker has asked first, if that was noted."""
    bench = Bench(world, RetryDelays(1.0, 3.0))
    job = bench.schedule()
    token = bench.lease(job)
    bench.run(job, token, ValueError())
    bench.end(job, token, How.FAILED, delay_ms=900)
    world.run(0.9)
    token = bench.lease(job, attempt=2)
    bench.run(job, token, ValueError())
    assert bench.judge.violation is None
    bench.end(job, token, How.FAILED, delay_ms=2000)
    world.run(1.9)
    bench.lease(job, attempt=3)
    assert "tried again 98 ms early" in bench.broken


def test_a_retry_that_came_before_the_answer(world):
    """The delay counts from when the failure was told, though the answer comes after the lease."""
    bench = Bench(world, RetryDelays(1.0, 3.0))
    job = bench.schedule()
    token = bench.lease(job)
    answered = bench.oracle.ends("w", job.job_id, token, How.FAILED, 1000)
    bench.lease(job, attempt=2)
    assert bench.judge.violation is None
    answered(True)
    assert "tried again" in bench.broken


def test_a_failure_that_is_told_under_another_lease(world):
    """The delay is that after the attempt as which the handler began."""
    bench = Bench(world, RetryDelays(1.0, 30.0))
    job = bench.schedule()
    bench.troubles.add()
    bench.run(job, bench.lease(job), ValueError())
    bench.end(job, bench.lease(job, attempt=3), How.FAILED, delay_ms=900)
    assert bench.judge.violation is None


@pytest.mark.parametrize(("attempt", "delay_ms"), [(1, 499), (1, 1001), (2, 999), (3, 3001)])
def test_a_wrong_retry_delay(world, attempt, delay_ms):
    """It doubles with each attempt, up to the longest; up to a half may be left out."""
    bench = Bench(world, RetryDelays(1.0, 3.0))
    job = bench.schedule()
    token = bench.lease(job, attempt=attempt)
    bench.end(job, token, How.FAILED, delay_ms=delay_ms)
    assert f"waits {delay_ms} ms after attempt {attempt}" in bench.broken


def test_an_old_token(bench):
    """An end under a token is not taken once a higher one was given; nor is that lease kept."""
    job, kept = bench.schedule(), bench.schedule()
    bench.troubles.add()
    bench.lease(kept)
    bench.lease(kept, "v")
    bench.oracle.keeps(kept.job_id, 1)(False)
    token = bench.lease(job)
    bench.run(job, token)
    bench.lease(job, "v")
    assert bench.judge.violation is None
    bench.end(job, token)
    assert "ended under the old token 3" in bench.broken


def test_an_old_lease_that_is_kept(bench):
    """That would be two workers' at a time."""
    job = bench.schedule()
    bench.troubles.add()
    bench.lease(job)
    bench.lease(job, "v")
    bench.oracle.keeps(job.job_id, 1)(True)
    assert "the lease with token 1 was kept, and was another's" in bench.broken


def test_a_job_that_is_begun_too_late(bench):
    """Its worker knows that the lease has ended."""
    job = bench.schedule()
    token = bench.lease(job)
    bench.world.run(21)
    bench.run(job, token)
    assert "begins it 0.999 s after its lease has ended" in bench.broken


def test_what_was_not_done(bench):
    """A worker says so of a job whose handler has not returned."""
    job = bench.schedule()
    token = bench.lease(job)
    bench.run(job, token, ValueError())
    bench.end(job, token)
    assert "no handler has returned" in bench.broken


@pytest.mark.parametrize("attempts", [2, 4])
def test_a_dead_job(bench, attempts):
    """It has had each of its attempts."""
    bench.die(bench.schedule(), attempts)
    assert f"dead after {attempts} of 3 attempts" in bench.broken


def test_a_dead_job_that_was_done_or_dropped(bench):
    """It is not dead."""
    done, dropped = bench.schedule(), bench.schedule()
    dropped.drops.append(CallRecord(0, 1, answer=1))
    bench.do(done)
    assert bench.broken == ""
    bench.die(dropped)
    assert "dead, though it was dropped" in bench.broken
    bench.judge.violation = None
    bench.die(done)
    assert "dead, though it was done" in bench.broken
