"""How long jobs wait and run, by kind."""

import pytest

from purgatory.service import Client
from purgatory.service.job_messages import MOST_KINDS, OTHER
from purgatory.service.server.jobs.job_timings import (
    END_STATES,
    TIMING_BOUNDS_MS,
    JobTimings,
)
from purgatory.service.server.records.job_record import CANCELLED, DEAD, DONE
from purgatory.service.worker.worker import Worker
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def test_attempts():
    """Each is in one bucket of both histograms: that of the bound it does not exceed."""
    timings = JobTimings()
    timings.end_attempt("mail", 5, 6, failed=False)
    timings.end_attempt("mail", 0, 10**9, failed=True)
    mail = timings.by_kind["mail"]
    assert (mail.queued[0], mail.ran[1], mail.ran[-1]) == (2, 1, 1)
    assert (mail.queued_ms, mail.ran_ms) == (5, 6 + 10**9)
    assert (mail.attempts, mail.failed_attempts) == (2, 1)


def test_bounds_that_dashboards_name():
    """They are labels of metrics: five milliseconds to two hours."""
    seconds = [bound / 1000 for bound in TIMING_BOUNDS_MS]
    assert seconds[:8] == [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]
    assert seconds[8:] == [2.5, 5, 10, 30, 60, 5 * 60, 30 * 60, 2 * 3600]


def test_a_clock_that_was_set_back():
    """Nothing takes less than no time."""
    timings = JobTimings()
    timings.end_attempt("mail", -5, -1, failed=False)
    mail = timings.by_kind["mail"]
    assert (mail.queued_ms, mail.ran_ms, mail.queued[0], mail.ran[0]) == (0, 0, 1, 1)


@pytest.mark.parametrize("place", range(3))
def test_ends(place):
    """By state."""
    assert END_STATES == (DONE, DEAD, CANCELLED)
    timings = JobTimings()
    timings.end_job("mail", END_STATES[place])
    assert timings.by_kind["mail"].ended[place] == sum(timings.by_kind["mail"].ended) == 1


def test_kinds_are_bounded():
    """Those beyond are put together, and a kind stays where it is."""
    timings = JobTimings()
    for n in range(3 * MOST_KINDS):
        timings.end_job(f"kind {n % (2 * MOST_KINDS)}", DONE)
    assert len(timings.by_kind) == MOST_KINDS + 1
    assert [*timings.by_kind][-1] == OTHER
    assert timings.by_kind[OTHER].ended[0] == MOST_KINDS
    assert timings.by_kind["kind 0"].ended[0] == 2
    assert list(TIMING_BOUNDS_MS) == sorted(TIMING_BOUNDS_MS)


def test_of_a_server(serve):
    """Attempts and ends are counted once, those of jobs that never run, too."""
    server = serve()
    worker = Worker(server.address, name="shop", retry_delay=0.01, max_attempts=2)

    @worker.on("mail")
    def mail(job):
        if job.payload == "bad":
            raise ValueError(job.payload)

    with Client(server.address, name="shop", timeout=HANG) as client:
        jobs = [client.schedule(0, kind="mail", payload=what) for what in ("good", "good", "bad")]
        late = client.schedule(HANG, kind="mail")
        assert client.cancel_job(late.id)
        with worker:
            found = server.state.jobs.timings.by_kind
            eventually(lambda: found["mail"].ended == [2, 1, 1])
        assert client.drop_job(jobs[-1].id)
        assert (found["mail"].attempts, found["mail"].failed_attempts) == (4, 2)
        assert sum(found["mail"].queued) == 4
        assert found["mail"].ended == [2, 1, 1]
