"""What clients' requests do, and what they are answered with."""

from functools import partial

import pytest

from purgatory.service.job_messages import (
    CancelJobs,
    JobFilter,
    ListJobs,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
)
from purgatory.service.protocol import (
    Acknowledge,
    Cancel,
    Extend,
    Failure,
    How,
    Query,
    Submit,
    Submitted,
    TimeoutExtension,
    Unread,
)
from tests.testing.step_server import job, operation


@pytest.fixture
def server(step_server):
    return step_server


def test_queries(server):
    """Tell of what waits, what has ended, and what is not known."""
    server.submit(operation("a", "x", "y", need=2, kind="pay"), operation("b"))
    server.complete("b's key")
    a, b = server.query("a"), server.query("b")
    assert (a.state, a.keys, a.need, a.kind, a.client) == ("pending", ["x", "y"], 2, "pay", "c")
    assert (b.state, b.by_key, b.at_ms) == ("completed", "b's key", b.submitted_ms)
    assert server.query("unknown").state == "unknown"


def test_many_outcomes_come_in_several_frames(server):
    """Each frame begins where the last one ended."""
    server.submit(*(operation(f"o{n}", "k") for n in range(700)))
    assert len(server.complete_and_push("k")[1]) == 700
    after, got = 0, []
    while some := server.fetch_outcomes(after=after):
        got += [outcome.number for outcome in some]
        after = got[-1]
        assert len(some) <= 256
    assert got == list(range(1, 701))


def test_a_client_that_is_not_connected_gets_its_outcomes_later(server):
    """Nothing is pushed; it fetches them when it connects again."""
    server.submit(operation("a"))
    server.bye()
    assert server.complete_and_push("a's key")[1] == []
    server.hello()
    assert len(server.fetch_outcomes()) == 1


def test_an_unexpected_error(server, caplog):
    """Its request is refused and logged; the others of its transaction are done."""
    server.post(Submit, [operation("before")])
    server.post(Cancel, [["no text"]])
    server.post(Submit, [operation("after")])
    replies, _ = server.step()
    assert [type(one) for one in replies if one.seq != 2] == [Submitted, Submitted]
    [refused] = [one for one in replies if one.seq == 2]
    assert isinstance(refused, Failure)
    assert "a request of client 'c' has failed" in caplog.text
    assert [server.query(op_id).state for op_id in ("before", "after")] == ["pending"] * 2


def test_what_an_administrator_reaches(server):
    """Operations and jobs of all clients."""
    server.submit(operation("op", "k"), job("later"))
    ask = partial(server.ask, client="administrator")
    assert ask(Query, ["op"]).states[0].state == "pending"
    assert ask(Extend, [TimeoutExtension("op", 5000)]).done == [True]
    assert ask(Cancel, ["op"]).done == [True]
    assert [one.job_id for one in ask(ListJobs, JobFilter()).jobs] == ["later"]
    assert ask(RescheduleJobs, [Reschedule("later", 10_000)]).done == [True]
    assert ask(CancelJobs, ["later"]).done == [True]


def test_what_is_of_the_own_name_alone(server):
    """Work and outcomes, for an administrator as well."""
    server.submit(operation("op", "k"), job("due", timeout_ms=0))
    server.pass_time(2)
    server.complete("k")
    ask = partial(server.ask, client="administrator")
    assert server.work(client="administrator", route=b"other") == []
    [leased] = server.work(attempts=1)
    assert server.finish(leased, client="administrator") == [False]
    assert server.finish(leased, how=How.FAILED) == [True]
    assert ask(Unread).outcomes == []
    assert ask(Acknowledge, [1, 2], True).count == 0
    assert ask(RetryJobs, ["due"]).done == [True]
