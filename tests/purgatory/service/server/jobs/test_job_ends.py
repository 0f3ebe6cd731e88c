"""Connections are told of the ends of jobs that they watch."""

import pytest

from purgatory.service.encoding import encode, unpack
from purgatory.service.job_messages import JobEnds, JobStates, WatchJobs
from purgatory.service.protocol import How
from tests.testing.step_server import job


def told(replies):
    """Return job -> state of the ends among replies."""
    return {one.job_id: one.state for reply in replies if isinstance(reply, JobEnds)
            for one in reply.jobs}  # fmt: skip


@pytest.fixture
def server(step_server):
    """It watches the jobs a, b and c, which are due, and "gone", which is unknown."""
    step_server.submit(*[job(name, timeout_ms=0, payload="x") for name in "abc"])
    step_server.pass_time(2)
    states = step_server.ask(WatchJobs, ["a", "b", "c", "gone"])
    assert isinstance(states, JobStates)
    assert [one.state for one in states.jobs] == ["ready"] * 3 + ["unknown"]
    return step_server


def test_ends(server):
    """Done, dead and cancelled; with the result, without the payload; once."""
    first, second, third = server.work(attempts=1)
    server.post_finish(first, result=encode("r"))
    replies, _ = server.step()
    [ends] = [reply for reply in replies if isinstance(reply, JobEnds)]
    [status] = ends.jobs
    assert (status.job_id, status.state, unpack(status.result)) == ("a", "done", "r")
    assert unpack(status.payload) is None
    server.post_finish(second, how=How.FAILED)
    assert told(server.step()[0]) == {"b": "dead"}
    server.post_finish(third, how=How.FAILED)
    assert told(server.step()[0]) == {"c": "dead"}
    assert server.state.jobs.watches.count == 1


def test_a_known_end(server):
    """The answer has the state of a job that has ended; then there is no push."""
    [leased, *_] = server.work()
    server.post_finish(leased)
    server.step()
    assert server.ask(WatchJobs, ["a"]).jobs[0].state == "done"


def test_stop(server):
    """Nothing is told any more."""
    server.ask(WatchJobs, ["a"], True)
    [leased, *_] = server.work()
    server.post_finish(leased)
    assert told(server.step()[0]) == {}


def test_a_connection_that_has_gone(server):
    """It is forgotten with what it watches."""
    server.bye()
    assert server.state.jobs.watches.count == 0
