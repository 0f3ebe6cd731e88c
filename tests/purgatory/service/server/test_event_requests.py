"""Completing, failing and cancelling, as clients ask for them."""

import pytest

from purgatory.service.encoding import unpack
from purgatory.service.protocol import Cancel
from tests.testing.step_server import operation, result


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


def test_an_operation_that_needs_several_keys(server):
    """It has the values of the keys that were completed; each key counts once."""
    server.submit(operation("a", "x", "y", "z", need=2))
    assert server.complete_and_push("x", 1) == (0, [])
    assert server.complete_and_push("x", 2) == (0, [])
    assert server.query("a").keys_done == ["x"]
    count, [outcome] = server.complete_and_push("z", 3)
    assert (count, outcome.by_key, result(outcome)) == (1, "z", {"x": 1, "z": 3})


def test_cancelling(server):
    """Works once; what has ended or is not known cannot be cancelled."""
    server.submit(operation("a"))
    server.post(Cancel, ["a", "a", "unknown"])
    [answer], [outcome] = server.step()
    assert (answer.done, outcome.outcome) == ([True, False, False], "cancelled")
