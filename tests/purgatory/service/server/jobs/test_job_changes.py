"""What a transaction changes of jobs; `test_control_requests` has most of it, at a server."""

import pytest

from purgatory.service.job_messages import CancelJobs, Reschedule, RescheduleJobs
from purgatory.service.protocol import Complete, Completion
from tests.testing.step_server import job, operation


def test_moved_and_cancelled_at_once(step_server):
    """A job that is due in a transaction, moved in it, and cancelled in it, is cancelled."""
    step_server.submit(job("a"))
    step_server.time.ms += 2000
    step_server.post(RescheduleJobs, [Reschedule("a", 5000)])
    step_server.post(CancelJobs, ["a"])
    step_server.post(CancelJobs, ["a"])
    step_server.post(RescheduleJobs, [Reschedule("a", 5000)])
    replies, _ = step_server.step()
    assert [reply.done for reply in replies] == [[True], [True], [False], [False]]
    assert step_server.job_states("a") == ["cancelled"]
    step_server.crash()
    assert step_server.job_states("a") == ["cancelled"]


def test_moved_twice_at_once(step_server):
    """The last time counts."""
    step_server.submit(job("a"))
    step_server.time.ms += 2000
    step_server.post(RescheduleJobs, [Reschedule("a", 5000), Reschedule("a", 7000)])
    step_server.step()
    for _ in range(2):
        assert step_server.job("a").due_ms == step_server.time.ms + 7000
        step_server.crash()


def test_submitted_and_cancelled_at_once(step_server):
    """A job that is new in a transaction may be cancelled in it, also by a held key."""
    step_server.complete("k", hold_ms=1000)
    step_server.submit(job("a", "k"))
    assert step_server.job("a").error == "cancelled by key k"
    step_server.crash()
    assert step_server.job("a").error == "cancelled by key k"


def test_start_within_counts_from_the_new_time(step_server):
    """A job that was moved may begin that long after its new time."""
    step_server.submit(job("a", start_within_ms=1000))
    step_server.time.ms += 1500
    step_server.post(RescheduleJobs, [Reschedule("a", 5000)])
    step_server.step()
    step_server.let_pass(5800)
    assert step_server.job_states("a") == ["ready"]
    step_server.let_pass(400)
    assert step_server.job("a").error == "not begun in time"


@pytest.mark.parametrize("limit", [1, 2, 3, 4, None])
def test_how_many_due_jobs_a_key_cancels(step_server, limit):
    """At most `limit`, in order of submission; without one all."""
    names = ("c", "a", "b")
    step_server.submit(*[job(name, "k", timeout_ms=10) for name in names])
    step_server.pass_time(11)
    count = min(limit or 3, 3)
    assert step_server.complete("k", limit=limit).counts == [count]
    assert step_server.job_states(*names) == ["cancelled"] * count + ["ready"] * (3 - count)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_key_that_comes_again_before_a_worker_gives_the_job_back(step_server, at_once):
    """The job was cancelled by the first event: the second counts for an operation alone."""
    step_server.work(begins=True)
    step_server.submit(job("a", "k", timeout_ms=0))
    step_server.pass_time(1)
    step_server.submit(operation("b", "k"))
    completions = [Completion("k", limit=1)] * 2
    if at_once:
        assert step_server.ask(Complete, completions).counts == [1, 1]
    else:
        for completion in completions:
            assert step_server.ask(Complete, [completion]).counts == [1]
    assert step_server.query("b").state == "completed"
    assert step_server.complete("k").counts == [0]
