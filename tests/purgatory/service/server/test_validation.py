"""What a server refuses because of its limits."""

import pytest

from purgatory.service.encoding import encode, unpack
from purgatory.service.nesting import MAX_LEVELS
from purgatory.service.protocol import MAX_INT, Complete, Completion, Raw, Submission
from tests.testing.step_server import StepServer, nested, operation


@pytest.fixture
def server(step_server):
    return step_server


@pytest.mark.parametrize(
    ("submission", "code"),
    [
        (operation("a", *"abcdefghijk"), "too-many-keys"),
        (operation("a", timeout_ms=10**9 + 1), "too-long"),
        (operation("a", timeout_ms=MAX_INT), "too-long"),
        (operation("a", timeout_ms=-1), "malformed"),
        (operation("a", need=MAX_INT), "malformed"),
        (operation("a", need=2), "malformed"),
        (operation("a", "k", "k", need=2), "malformed"),
        (operation("a", "k", need=-1), "malformed"),
        (Submission("a", (), 1000, need=0), "malformed"),
        (operation("a", ""), "malformed"),
        (operation("", "k"), "malformed"),
        (operation("a", payload="x" * 1000), "too-large"),
        (operation("a", payload=nested(501)), "malformed"),
        (operation("a", "k" * 1001), "too-large"),
        (operation("ä" * 501, "k"), "too-large"),
        (operation("a", kind="x" * 1001), "too-large"),
    ],
)
def test_a_bad_operation_is_refused_by_its_index(server, submission, code):
    """The other operations of its message are taken."""
    answer = server.submit(operation("before"), submission, operation("after"))
    assert [(refusal.index, refusal.code) for refusal in answer.refused] == [(1, code)]
    assert server.query("before").state == server.query("after").state == "pending"
    assert server.handler.refused == 1


@pytest.mark.parametrize(("value", "code"), [("x" * 1000, "too-large"), (nested(501), "malformed")])
def test_a_bad_value_refuses_the_whole_message(server, value, code):
    """None of the keys of the message is completed."""
    server.submit(operation("a"))
    pairs = [Completion("a's key"), Completion("k", Raw(encode(value)))]
    answer = server.ask(Complete, pairs)
    assert (answer.code, server.query("a").state) == (code, "pending")


def test_values_as_deep_as_they_may_be(server):
    """MAX_LEVELS: for a payload, a value, and the values of several keys in a dict."""
    server.submit(operation("a", "k", "l", need=2, payload=nested(MAX_LEVELS)))
    server.complete("k", nested(MAX_LEVELS))
    server.complete("l")
    status = server.query("a")
    assert unpack(status.payload) == nested(MAX_LEVELS)
    assert unpack(status.result) == {"k": nested(MAX_LEVELS), "l": None}


def test_limits_of_pending_operations(tmp_path):
    """Unacknowledged outcomes count; a client at its limit does not keep others from submitting."""
    server = StepServer(tmp_path / "a.db", pending_per_client=2, pending=3)
    server.submit(operation("a"), operation("b"))
    assert [r.code for r in server.submit(operation("c")).refused] == ["too-many-pending"]
    server.complete("a's key")
    assert [r.code for r in server.submit(operation("c")).refused] == ["too-many-pending"]
    assert server.submit(operation("d"), client="other").refused == []
    assert len(server.submit(operation("e"), client="other").refused) == 1
    server.acknowledge(1)
    assert server.submit(operation("c")).refused == []
    server.store.close()
