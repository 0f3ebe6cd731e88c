"""Submits that clients send again, and ids that are taken; see also `test_unique_ids`."""

import pytest

from purgatory.service.protocol import Submit
from tests.testing.step_server import operation, result


@pytest.fixture
def server(step_server):
    return step_server


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
