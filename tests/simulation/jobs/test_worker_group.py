"""WorkerGroup: workers of a world run the jobs that its program schedules."""

from dataclasses import replace

import pytest

from tests.simulation.jobs.worker_group import GROUP
from tests.simulation.programs.job_workload import JobWorkload
from tests.simulation.programs.retry_delays import RetryDelays
from tests.simulation.programs.workload import usual_workload
from tests.simulation.simulation import Settings, Simulation

JOBS = JobWorkload(
    workers=2,
    concurrency=2,
    rate=5.0,
    burst=1,
    longest_delay=2.0,
    lease=15.0,
    max_attempts=3,
    retry_delays=RetryDelays(0.1, 0.3),
    longest_run=1.0,
    failing=0.0,
    hanging=0.0,
    poison=0.0,
)


@pytest.fixture
def world_of():
    """Make worlds without faults, whose jobs differ from JOBS as told."""
    made = []

    def make(**changes):
        workload = replace(usual_workload(1, 1.0), jobs=replace(JOBS, **changes))
        settings = Settings(seconds=20.0, kinds=(), workload=workload)
        made.append(Simulation(1, settings, with_history=True))
        return made[-1]

    yield make
    for one in made:
        one.discard()


def lines(simulation, words):
    return [line for line in simulation.world.history if words in line]


def test_each_job_is_done_once(world_of):
    """Where nothing goes wrong, in the order of tokens."""
    world = world_of()
    verdict = world.run()
    assert verdict.violation == ""
    assert verdict.jobs > 50
    jobs = [job for job in world.groups[0].oracle.jobs.values() if not job.is_ended]
    assert all(job.done_token in job.leases for job in jobs)
    assert all(len(job.leases) == job.returns == 1 for job in jobs)


def test_poison(world_of):
    """Each job dies, after its attempts."""
    world = world_of(poison=1.0)
    assert world.run().violation == ""
    busy = [
        job for job in world.groups[0].oracle.jobs.values() if job.is_poison and not job.is_ended
    ]
    assert len(busy) > 50
    dead = world.groups[0].oracle.dead
    assert all(job.job_id in dead or job.drops for job in busy)
    assert {job.attempts for job in dead.values()} == {3}


def test_handlers_that_hang(world_of):
    """Their leases are kept, and other jobs wait, or are another worker's."""
    world = world_of(hanging=0.3)
    assert world.run().violation == ""
    long = [
        lease
        for job in world.groups[0].oracle.jobs.values()
        for lease in job.leases.values()
        if lease.kept_ns - lease.given_ns > 20 * 10**9
    ]
    assert long


def test_a_worker_that_stops(world_of):
    """It gives back what its handlers do not finish, and is started again."""
    world = world_of(hanging=1.0)
    world.world.run(10)
    [first, _] = world.workers
    first.stop(1.0)
    world.world.run(5)
    assert first.running
    history = world.world.history
    world.world.history = None
    assert sum("worker-0: started" in line for line in history) == 2
    assert any("worker-0: stops" in line for line in history)
    assert any("worker-0" in line and "is given back" in line for line in history)
    world.world.history = history
    assert world.oracle.violation is None


def test_a_worker_that_is_killed(world_of):
    """What it ran is tried once more."""
    world = world_of(workers=1, hanging=1.0)
    world.world.run(10)
    [worker] = world.workers
    leases = [
        (job, lease)
        for job in world.groups[0].oracle.jobs.values()
        for lease in job.leases.values()
        if lease.begun_ns >= 0
    ]
    assert leases
    worker.kill()
    world.world.run(5)
    assert all(job.last_token == lease.token for job, lease in leases)
    worker.start()
    world.world.run(5)
    assert any(job.leases[job.last_token].attempt == 2 for job, _ in leases)


def test_the_history_tells_of_workers(world_of):
    """Leases, handlers and ends, with tokens and attempts."""
    world = world_of(failing=0.5)
    history = world.run().history
    for words in (
        f"{GROUP}: schedules jobs-1 in ",
        ": leases jobs-1 attempt=1 token=",
        ": begins jobs-1 token=",
        ": returns from jobs-",
        ": raises in jobs-",
        " completed",
        " failed",
    ):
        assert any(words in line for line in history), words
