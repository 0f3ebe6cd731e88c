"""What a server refuses because of its limits."""

import pytest
from msgspec import structs

from purgatory.service.encoding import encode, unpack
from purgatory.service.errors import (
    Malformed,
    Refused,
    TimeoutTooLong,
    TooLarge,
    TooManyItems,
    TooManyKeys,
    TooManyPending,
)
from purgatory.service.nesting import MAX_LEVELS
from purgatory.service.protocol import (
    MAX_INT,
    Complete,
    Completion,
    KeyFailure,
    Limits,
    Raw,
    Submission,
    own_key,
)
from purgatory.service.server.records.clients import ClientRecord
from purgatory.service.server.validation import MOST_PERIOD_MS, RequestValidator, shown
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


SMALL = Limits(
    message_bytes=50,
    keys=3,
    text_bytes=20,
    payload_bytes=100,
    pending_per_client=5,
    pending=7,
    timeout_ms=1000,
    items=4,
)


def refused_submission(pending=0, total=0, **fields):
    """Return why a submission is refused."""
    usual = {"keys": ("k",), "timeout_ms": 5, "need": 1, "kind": "", "payload": Raw(b"\xc0")}
    values = {"op_id": "a"} | usual | fields
    client = ClientRecord("c")
    client.count = pending
    check = RequestValidator(SMALL).check_submission
    return check(Submission(**values), tuple(values.values()), client, total)


def refused(method, *arguments):
    """Return why something is refused."""
    try:
        return getattr(RequestValidator(SMALL), method)(*arguments)
    except Refused as refusal:
        return refusal


def bytes_of(size):
    """Return so many bytes that are one value."""
    return Raw(b"\xc4" + bytes([size - 2]) + bytes(size - 2))


@pytest.mark.parametrize(
    ("check", "most", "error"),
    [
        (lambda n: refused_submission(pending=n), 4, TooManyPending),
        (lambda n: refused_submission(total=n), 6, TooManyPending),
        (lambda n: refused_submission(timeout_ms=n), 1000, TimeoutTooLong),
        (lambda n: refused_submission(keys=tuple("abcd"[:n])), 3, TooManyKeys),
        (lambda n: refused_submission(keys=("a", "b", "a"), need=n), 2, Malformed),
        (lambda n: refused_submission(keys=("k" * n,)), 20, TooLarge),
        (lambda n: refused_submission(op_id="a" * n), 20, TooLarge),
        (lambda n: refused_submission(op_id="ä" * n), 10, TooLarge),
        (lambda n: refused_submission(kind="a" * n), 20, TooLarge),
        (lambda n: refused_submission(payload=bytes_of(n)), 100, TooLarge),
        (lambda n: refused("check_tags", tuple("abcd"[:n])), 3, TooManyItems),
        (lambda n: refused("check_timeout", n), 1000, TimeoutTooLong),
        (lambda n: refused("check_message", bytes(n)), 50, TooLarge),
        (lambda n: refused("check_message", encode([0, 0, [1] * n])), 4, TooManyItems),
        (lambda n: refused("check_completion", Completion("k", bytes_of(n))), 100, TooLarge),
        (
            lambda n: refused("check_completion", Completion("k", hold_ms=n)),
            1000,
            TimeoutTooLong,
        ),
        (lambda n: refused("check_failure", KeyFailure("k", "E", "m" * n)), 100, TooLarge),
        (lambda n: refused("check_failure", KeyFailure("k", "E", "ä" * n)), 50, TooLarge),
        (lambda n: refused("check_text", "ä" * n), 10, TooLarge),
    ],
)
def test_the_most_is_taken_and_no_more(check, most, error):
    """Of each limit."""
    assert check(most) is None
    assert isinstance(check(most + 1), error)


@pytest.mark.parametrize(
    ("check", "least"),
    [
        (lambda n: refused_submission(timeout_ms=n), 0),
        (lambda n: refused_submission(need=n), 0),
        (lambda n: refused_submission(keys=("k",) * n), 1),
        (lambda n: refused_submission(op_id="a" * n), 1),
        (lambda n: refused("check_text", "a" * n), 1),
        (lambda n: refused("check_completion", Completion("k", limit=n)), 1),
    ],
)
def test_the_least_is_taken_and_no_less(check, least):
    """Anything below is malformed."""
    assert check(least) is None
    assert isinstance(check(least - 1), Malformed)


@pytest.mark.parametrize(("length", "text"), [(50, "a" * 50), (51, "a" * 47 + "...")])
def test_long_texts_are_cut_in_errors(length, text):
    """They are quoted."""
    assert shown("a" * length) == repr(text)


def test_keys_of_the_server():
    """No program has one, and no event ends a job by it."""
    key = own_key("a-1")
    assert refused_submission(op_id="a-1", keys=(key,), need=0) is None
    for others in ({"need": 1}, {"op_id": "b-2", "need": 0, "keys": (own_key("c-3"),)}):
        refusal = refused_submission(**{"op_id": "a-1", "keys": (key,)} | others)
        assert (refusal.code, "begins with NUL" in str(refusal)) == ("malformed", True)
    for refusal in (
        refused("check_completion", Completion(key, Raw(b"\xc0"))),
        refused("check_failure", KeyFailure(key, "Error", "why")),
    ):
        assert (refusal.code, "begins with NUL" in str(refusal)) == ("malformed", True)


def test_a_short_limit_of_timeouts_bounds_no_period():
    """The defaults of servers, workers and leases are longer; each would be refused."""
    validator = RequestValidator(structs.replace(SMALL, timeout_ms=1000))
    validator.check_period(MOST_PERIOD_MS, "unique_for")
    with pytest.raises(TimeoutTooLong, match=r"unique_for is .* s; expected at most \d+ s"):
        validator.check_period(MOST_PERIOD_MS + 1, "unique_for")
    with pytest.raises(Malformed, match=r"lease is 0\.099 s; expected 0\.1 s or more"):
        validator.check_period(99, "lease", 100)
