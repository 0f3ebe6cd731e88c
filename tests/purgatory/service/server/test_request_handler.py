"""What clients' requests do, and what they are answered with."""

from functools import partial

import pytest

from purgatory.service.encoding import unpack
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
    EndDead,
    Extend,
    How,
    Query,
    ReadDead,
    Submit,
    TimeoutExtension,
    Unread,
)
from tests.testing.step_server import job, operation, result


@pytest.fixture
def server(step_server):
    return step_server


def test_an_operation_completes_with_the_value_of_its_key(server):
    """The outcome is pushed to its client, with the payload that the client gave."""
    server.submit(operation("a", "k", payload={"order": 7}, kind="pay"))
    server.time.ms += 10
    count, [outcome] = server.complete_and_push("k", "v")
    assert count == 1
    assert (outcome.op_id, outcome.outcome, outcome.by_key) == ("a", "completed", "k")
    assert (result(outcome), unpack(outcome.payload), outcome.kind) == ("v", {"order": 7}, "pay")
    assert outcome.at_ms == outcome.submitted_ms + 10


def test_in_the_millisecond_of_its_deadline_it_still_completes(server):
    """One millisecond later it has expired, at its deadline."""
    for op_id in ("a", "b"):
        server.submit(operation(op_id, timeout_ms=50))
    server.time.ms += 50
    assert server.complete_and_push("a's key")[0] == 1
    server.time.ms += 1
    count, [outcome] = server.complete_and_push("b's key")
    assert (count, outcome.outcome) == (0, "expired")
    assert outcome.at_ms == outcome.deadline_ms == outcome.submitted_ms + 50


def test_a_late_completion_does_not_complete_an_overdue_operation(server):
    """Not even if nothing could be expired for a while, because the disk failed."""
    server.submit(operation("a", timeout_ms=50))
    server.faults.fail()
    server.pass_time(100)
    server.faults.clear()
    assert server.complete_and_push("a's key")[0] == 0
    [outcome] = server.pass_time(1000)
    assert (outcome.outcome, outcome.at_ms) == ("expired", outcome.deadline_ms)


def test_submitted_again_after_its_client_was_gone(server):
    """It is its own operation still, when nothing else was left of the client meanwhile."""
    server.submit(operation("a", "k"))
    _, [outcome] = server.complete_and_push("k", 1)
    server.acknowledge(outcome.number)
    server.bye()
    assert server.state.clients.by_name == {}
    server.hello()
    reply = server.submit(operation("a", "k"))
    assert (reply.refused, [known.state for known in reply.known]) == ([], ["completed"])


def test_an_operation_that_needs_several_keys(server):
    """It has the values of the keys that were completed; each key counts once."""
    server.submit(operation("a", "x", "y", "z", need=2))
    assert server.complete_and_push("x", 1) == (0, [])
    assert server.complete_and_push("x", 2) == (0, [])
    assert server.query("a").keys_done == ["x"]
    count, [outcome] = server.complete_and_push("z", 3)
    assert (count, outcome.by_key, result(outcome)) == (1, "z", {"x": 1, "z": 3})


def test_a_repeated_submit_is_answered_with_its_state(server):
    """It waits once; if it has ended, the outcome is sent again."""
    assert server.submit(operation("a")).known == []
    [known] = server.submit(operation("a")).known
    assert (known.index, known.state) == (0, "pending")
    server.complete_and_push("a's key", 5)
    server.post(Submit, [operation("new"), operation("a")])
    [answer], [outcome] = server.step()
    assert [(known.index, known.state) for known in answer.known] == [(1, "completed")]
    assert (outcome.number, result(outcome)) == (1, 5)
    assert server.state.purgatory.delayed == 1


def test_a_repeated_submit_while_the_disk_fails(server):
    """What is on disk from before is not refused, as what is new: it has its outcome."""
    server.submit(operation("waits"), operation("ended"))
    server.complete("ended's key")
    server.submit(operation("b"), client="other")
    server.faults.fail()
    server.post(Submit, [operation("waits"), operation("new"), operation("ended")])
    server.post(Submit, [operation("waits")])
    server.post(Submit, [operation("newer"), operation("b")])
    replies, outcomes = server.step()
    mixed, repeated, refused = sorted(replies, key=lambda reply: reply.seq)
    assert [(item.index, item.state) for item in mixed.known] == [(0, "pending"), (2, "completed")]
    assert [(item.index, item.code) for item in mixed.refused] == [(1, "store")]
    assert [item.state for item in repeated.known] == ["pending"]
    assert refused.code == "store"
    assert {outcome.op_id for outcome in [*outcomes, *server.step()[1]]} == {"ended"}
    server.faults.clear()
    assert [server.query(op_id).state for op_id in ("waits", "new")] == ["pending", "unknown"]


def test_an_id_of_another_client_is_taken(server):
    """The submit is refused, and the operation is as it was."""
    server.submit(operation("a"))
    [refusal] = server.submit(operation("a"), client="other").refused
    assert refusal.code == "taken"
    assert server.query("a").client == "c"


def test_cancelling(server):
    """Works once; what has ended or is not known cannot be cancelled."""
    server.submit(operation("a"))
    server.post(Cancel, ["a", "a", "unknown"])
    [answer], [outcome] = server.step()
    assert (answer.done, outcome.outcome) == ([True, False, False], "cancelled")


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
    """Work, outcomes and dead jobs by number, for an administrator as well."""
    server.submit(operation("op", "k"), job("due", timeout_ms=0))
    server.pass_time(2)
    server.complete("k")
    ask = partial(server.ask, client="administrator")
    assert server.work(client="administrator", route=b"other") == []
    [leased] = server.work(attempts=1)
    assert server.finish(leased, client="administrator") == [False]
    assert server.finish(leased, how=How.FAILED) == [True]
    assert ask(ReadDead).jobs == []
    assert ask(EndDead, [leased.number]).done == [False]
    assert ask(Unread).outcomes == []
    assert ask(Acknowledge, [1, 2], True).count == 0
    assert ask(RetryJobs, ["due"]).done == [True]
