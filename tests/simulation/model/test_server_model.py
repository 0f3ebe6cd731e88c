"""The model: the contract of section 4, executed naively."""

import pytest

from purgatory.service.encoding import encode
from purgatory.service.protocol import (
    Cancel,
    Complete,
    Completion,
    Extend,
    Fail,
    KeyFailure,
    Submission,
    Submit,
    TimeoutExtension,
)
from tests.simulation.model.model_operation import End, is_answer
from tests.simulation.model.server_model import ServerModel

START_NS = 1_000_000_000
MS = 1_000_000


@pytest.fixture
def model():
    """A model in its first transaction."""
    model = ServerModel()
    model.begin(START_NS)
    return model


def submit(model, op_id, *keys, need=1, timeout_ms=1000, client="a"):
    """Submit an operation; returns the answer."""
    return model.submit(client, Submit(1, [Submission(op_id, keys, timeout_ms, need)]))


def complete(model, key, value=b"\x01", **options):
    """Complete a key; returns how many operations that completed."""
    return model.events.complete(Completion(key, value, **options))


def test_a_limited_event_reaches_the_longest_waiting(model):
    """By submission; others are left out."""
    for op_id in "xyz":
        submit(model, op_id, "k")
    assert complete(model, "k", limit=2) == 2
    assert [model.known[op_id].state for op_id in "xyz"] == ["completed", "completed", "pending"]


def test_a_held_event_counts_to_its_last_instant(model):
    """And not a millisecond longer."""
    complete(model, "k", hold_ms=5)
    model.begin(START_NS + 5 * MS)
    submit(model, "x", "k")
    model.begin(START_NS + 6 * MS)
    submit(model, "y", "k")
    assert model.known["x"].state == "completed"
    assert model.known["y"].state == "pending"


def test_a_later_event_replaces_a_held_one(model):
    """Also one that is not held."""
    complete(model, "k", hold_ms=500)
    complete(model, "k")
    submit(model, "x", "k")
    assert model.known["x"].state == "pending"


def test_a_failure_leaves_what_is_held(model):
    """It fails what waits."""
    submit(model, "x", "k")
    complete(model, "j", hold_ms=500)
    assert model.events.fail(KeyFailure("j", "Error")) == 0
    assert model.events.fail(KeyFailure("k", "Error", "no")) == 1
    assert model.known["x"].end == End("failed", 1000, None, encode(("Error", "no")))
    submit(model, "y", "j")
    assert model.known["y"].state == "completed"


def test_the_last_key_completes(model):
    """One that has counted before does not count again."""
    submit(model, "x", "k", "j", "i", need=2)
    assert [complete(model, key) for key in ("j", "j", "k")] == [0, 0, 1]
    assert model.known["x"].end.by_key == "k"
    assert model.known["x"].end.result == {"j": b"\x01", "k": b"\x01"}


def test_an_extension_counts_from_now(model):
    """Until the deadline's own millisecond; an operation that has ended is not extended."""
    submit(model, "x", "k", timeout_ms=10)
    model.begin(START_NS + 10 * MS)
    extend = Extend(2, [TimeoutExtension("x", 30), TimeoutExtension("unknown", 30)])
    frame, was_there = model.answer_once("a", "s", extend)
    assert (frame, was_there) == (encode((39, 2, [True, False])), False)
    assert model.known["x"].deadline_ms == 1040


def test_a_cancelled_operation_has_ended(model):
    """Cancelling again changes nothing."""
    submit(model, "x", "k")
    assert model.changes[Cancel]("a", Cancel(2, ["x", "x"])).done == [True, False]


def test_what_is_due_expires_at_the_next_tick(model):
    """Not before its deadline has passed."""
    submit(model, "x", "k", timeout_ms=10)
    model.begin(START_NS + 10 * MS)
    assert model.due() == []
    model.begin(START_NS + 10 * MS + 250_000)
    assert model.due() == [model.known["x"]]


def test_an_event_after_an_expiry_has_the_next_millisecond(model):
    """In a trace, events come before the expirations of their millisecond."""
    submit(model, "x", "k", timeout_ms=10)
    model.begin(START_NS + 10 * MS + 250_000)
    model.expire(*model.due())
    complete(model, "j")
    assert model.stamp.now_ms == 1010
    complete(model, "k")
    assert model.stamp.now_ms == 1011


def test_a_request_is_done_once(model):
    """Sent again it has the same answer."""
    submit(model, "x", "k")
    request = Complete(7, [Completion("k")])
    frame, _ = model.answer_once("a", "s", request)
    assert model.answer_once("a", "s", request) == (frame, False)
    model.begin(START_NS)
    assert model.answer_once("a", "s", request) == (frame, True)
    assert model.answer_once("a", "other session", request) == (encode((34, 7, [0])), False)


def test_another_clients_id_is_refused(model):
    """The own one is known."""
    submit(model, "x", "k")
    assert [known.state for known in submit(model, "x", "k").known] == ["pending"]
    assert submit(model, "x", "k", client="b").refused


def test_all_that_a_transaction_has_changed_is_taken_back(model):
    """Operations, progress, ends, what is held, and replies."""
    submit(model, "x", "k", "j", need=2)
    submit(model, "y", "j", timeout_ms=10)
    complete(model, "i", hold_ms=100)
    before = repr(model.known), dict(model.events.held)
    model.begin(START_NS + 11 * MS)
    model.expire(*model.due())
    submit(model, "z", "i")
    model.answer_once("a", "s", Complete(7, [Completion("k", limit=1), Completion("i")]))
    model.answer_once("a", "s", Extend(8, [TimeoutExtension("x", 5000)]))
    model.answer_once("a", "s", Fail(9, [KeyFailure("j", "Error")]))
    model.take_back()
    assert (repr(model.known), model.events.held) == before
    assert model.replies == {}
    assert not model.events.unpublished
    model.begin(START_NS + 12 * MS)
    assert model.due() == [model.known["y"]]


def test_a_reply_that_is_taken_back_gives_the_oldest_its_place(model):
    """A session remembers 32 replies, in the order of its requests."""
    for seq in range(1, 33):
        model.answer_once("a", "s", Complete(seq, [Completion("k")]))
    before = list(model.replies["a", "s"].items())
    model.begin(START_NS)
    model.answer_once("a", "s", Complete(33, [Completion("k")]))
    assert list(model.replies["a", "s"]) == list(range(2, 34))
    model.take_back()
    assert list(model.replies["a", "s"].items()) == before


def test_the_state_of_a_job_that_was_due_is_open(model):
    """All else of the answer is not."""
    submit(model, "x", "k", need=0, timeout_ms=0)
    model.begin(START_NS + MS)
    model.expire(*model.due())
    expected = [33, 1, [], [[0, submit(model, "x", "k", need=0).known[0].state]]]
    assert is_answer(expected, [33, 1, [], [[0, "completed"]]])
    assert not is_answer(expected, [33, 1, [], [[1, "completed"]]])
    assert not is_answer(expected, [33, 1, [], []])
