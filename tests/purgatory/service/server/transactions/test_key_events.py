"""Limits, holds, extensions and failures at a server; `test_model` has them at random."""

import pytest

from purgatory.service.protocol import (
    MAX_INT,
    Complete,
    Completion,
    Extend,
    Fail,
    KeyFailure,
    TimeoutExtension,
)
from purgatory.service.server.transactions import key_events
from tests.testing.step_server import RecordingSink, StepServer, job, operation, result


def test_a_limit(step_server):
    """The longest waiting come first; an operation that is not reached waits on."""
    server = step_server
    server.submit(*[operation(name, "k") for name in "abc"])
    server.extend("a", 5000)
    assert server.complete("k", limit=2).counts == [2]
    assert [server.query(name).state for name in "abc"] == ["completed", "completed", "pending"]


def test_a_limit_after_a_rolled_back_transaction(step_server):
    """The order is that of submission even so."""
    server = step_server
    server.submit(operation("a", "k"), operation("b", "k"))
    server.faults.fail()
    assert server.complete("k", limit=1).code == "store"
    server.faults.clear()
    assert server.complete("k", limit=1).counts == [1]
    assert server.query("a").state == "completed"


def test_a_limit_counts_what_it_brings_nearer(step_server):
    """An operation for which the key has counted is not reached again."""
    server = step_server
    server.submit(operation("a", "k", "l", need=2), operation("b", "k"), operation("c", "k"))
    assert server.complete("k", limit=1).counts == [0]
    assert server.complete("k", limit=1).counts == [1]
    assert server.query("a").keys_done == ["k"]
    assert server.query("b").state == "completed"


def test_what_is_held(step_server):
    """It completes what is submitted later, to its last millisecond, also after a crash."""
    server = step_server
    assert server.complete("k", "v", hold_ms=100).counts == [0]
    [outcome] = server_outcomes(server, operation("a", "k", payload="p"))
    assert (outcome.outcome, outcome.by_key, result(outcome)) == ("completed", "k", "v")
    server.crash()
    server.hello()
    server.pass_time(100)
    assert len(server.state.held) == 1
    server.submit(operation("b", "k"))
    assert server.query("b").state == "completed"
    server.pass_time(1)
    assert len(server.state.held) == 0
    server.submit(operation("c", "k"))
    assert server.query("c").state == "pending"
    assert server.store.held_events() == []


def server_outcomes(server, one):
    """Submit an operation; returns the outcomes that are pushed in the same transaction."""
    from purgatory.service.protocol import Submit  # noqa: PLC0415

    server.post(Submit, [one])
    return server.step()[1]


def test_a_limit_bounds_what_is_held(step_server):
    """Units that are left are kept over a crash."""
    server = step_server
    server.submit(operation("a", "k"))
    assert server.complete("k", limit=3, hold_ms=1000).counts == [1]
    server.submit(operation("b", "k"))
    server.crash()
    server.hello()
    server.submit(operation("c", "k"), operation("d", "k"))
    assert [server.query(name).state for name in "bcd"] == ["completed", "completed", "pending"]
    assert len(server.state.held) == 0


@pytest.mark.parametrize("hold_ms", [0, 50])
def test_a_later_completion_replaces_what_is_held(step_server, hold_ms):
    """One without a hold, too; a failure does not."""
    server = step_server
    server.complete("k", "first", hold_ms=1000)
    assert server.fail("k").counts == [0]
    assert len(server.state.held) == 1
    server.complete("k", "second", hold_ms=hold_ms)
    server.submit(operation("a", "k"))
    assert server.query("a").state == ("completed" if hold_ms else "pending")


def test_what_is_held_after_a_rolled_back_transaction(step_server):
    """The event before is held again, with its value."""
    server = step_server
    server.complete("k", "first", hold_ms=1000)
    server.faults.fail()
    assert server.complete("k", "second", hold_ms=1000).code == "store"
    server.faults.clear()
    [outcome] = server_outcomes(server, operation("a", "k"))
    assert result(outcome) == "first"


def test_several_held_keys_count_in_the_order_in_which_they_came(step_server):
    """Whatever the order of the operation's keys, and in one millisecond, too."""
    server = step_server
    server.complete("l", 1, hold_ms=1000)
    server.complete("k", 2, hold_ms=1000)
    server.submit(operation("a", "k", "l"))
    assert server.query("a").by_key == "l"
    server.crash()
    server.submit(operation("b", "k", "l", need=2))
    assert server.query("b").by_key == "k"


def test_many_held_events_are_released_in_portions(step_server, monkeypatch):
    """Each transaction releases some; none counts after its time."""
    monkeypatch.setattr(key_events, "MAX_RELEASED_PER_TRANSACTION", 2)
    server = step_server
    server.ask(Complete, [Completion(f"k{n}", hold_ms=10) for n in range(5)])
    server.pass_time(11)
    assert len(server.state.held) == 3
    server.submit(operation("a", "k4"))
    assert server.query("a").state == "pending"
    for _ in range(2):
        server.step()
    assert len(server.state.held) == 0


def test_the_store_loop_wakes_to_release(step_server):
    """It sleeps no longer than until the first event is to be released."""
    server = step_server
    server.complete("k", hold_ms=250)
    assert server.store_loop.max_sleep() == pytest.approx(0.251)


def test_too_many_held(tmp_path):
    """The request is refused, and nothing of it is done; a key that is held may be replaced."""
    server = StepServer(None, held=2)
    server.submit(operation("a", "k1"))
    request = [Completion(f"k{n}", hold_ms=10) for n in range(3)]
    assert server.ask(Complete, request).code == "too-many-held"
    assert server.query("a").state == "pending"
    server.ask(Complete, request[:2])
    assert server.ask(Complete, request[:2]).counts == [0, 0]
    assert server.complete("other").counts == [0]
    server.store.close()


@pytest.mark.parametrize(
    ("kind", "item", "code"),
    [
        (Complete, Completion("k", limit=0), "malformed"),
        (Complete, Completion("k", limit=-1), "malformed"),
        (Complete, Completion("k", hold_ms=-1), "malformed"),
        (Complete, Completion("k", hold_ms=MAX_INT), "too-long"),
        (Extend, TimeoutExtension("a", -1), "malformed"),
        (Extend, TimeoutExtension("a", MAX_INT), "too-long"),
        (Fail, KeyFailure("", "Error"), "malformed"),
        (Fail, KeyFailure("k", ""), "malformed"),
        (Fail, KeyFailure("k", "Error", "ä" * 600), "too-large"),
    ],
)
def test_bad_requests(step_server, kind, item, code):
    """They are refused with a code."""
    assert step_server.ask(kind, [item]).code == code


def test_extending(step_server):
    """The timeout counts anew, in the deadline's own millisecond still, and over a crash."""
    server = step_server
    server.submit(operation("a", "k", timeout_ms=100), operation("b", "k", timeout_ms=100))
    server.pass_time(100)
    assert server.extend("a", 50).done == [True]
    assert server.query("a").deadline_ms == server.time.ms + 50
    server.crash()
    server.hello()
    [outcome] = server.pass_time(1)
    assert (outcome.op_id, outcome.outcome) == ("b", "expired")
    assert server.pass_time(49) == []
    [outcome] = server.pass_time(1)
    assert (outcome.op_id, outcome.deadline_ms, outcome.at_ms) == ("a", *[server.time.ms - 1] * 2)
    assert server.extend("a", 50).done == [False]
    assert server.extend("unknown", 50).done == [False]
    assert server.query("a").deadline_ms == server.time.ms - 1


def test_extending_to_less(step_server):
    """A shorter timeout will do."""
    server = step_server
    server.submit(operation("a", timeout_ms=100_000))
    assert server.extend("a", 5).done == [True]
    assert [outcome.op_id for outcome in server.pass_time(6)] == ["a"]


def test_setting_the_wall_clock_moves_what_is_extended_and_held(tmp_path):
    """They end as far away as before."""
    server = StepServer(tmp_path / "a.db")
    server.hello()
    server.submit(operation("a", timeout_ms=10))
    server.extend("a", 5000)
    server.complete("k", hold_ms=5000)
    server.time.wall_ms = 10**9
    server.crash()
    server.pass_time(5000)
    server.submit(operation("b", "k"))
    assert server.query("b").state == "completed"
    assert server.query("a").state == "pending"
    server.pass_time(1)
    assert server.query("a").state == "expired"
    assert len(server.state.held) == 0
    server.store.close()


def test_failing(step_server):
    """What waits for the key fails whatever it needs, unless that key has counted."""
    server = step_server
    server.submit(operation("a", "k"), operation("b", "k", "l", "m", need=2), operation("c", "l"))
    server.complete("l", 1)
    assert server.fail("l").counts == [0]
    server.post(Fail, [KeyFailure("k", "ValueError", "why")])
    [reply], outcomes = server.step()
    assert reply.counts == [2]
    assert [(o.op_id, o.outcome, o.by_key, result(o)) for o in outcomes] == [
        ("a", "failed", None, ["ValueError", "why"]),
        ("b", "failed", None, ["ValueError", "why"]),
    ]
    server.crash()
    server.hello()
    [again, *_] = [o for o in server.fetch_outcomes() if o.op_id == "a"]
    assert again == outcomes[0]
    assert server.query("b").state == "failed"


@pytest.mark.parametrize(
    "end",
    [
        lambda server: server.complete("k"),
        lambda server: server.complete("k", limit=10),
        lambda server: server.complete("k", hold_ms=10),
        lambda server: server.fail("k"),
    ],
    ids=["complete", "limit", "hold", "fail"],
)
def test_operations_and_due_jobs_are_counted_together(step_server, end):
    """The answer is how many of both the key has ended."""
    server = step_server
    server.submit(job("due", "k", timeout_ms=10), job("due too", "k", timeout_ms=10))
    server.pass_time(11)
    server.submit(operation("a", "k"), job("later", "k"), operation("other", "l"))
    assert end(server).counts == [4]
    assert server.query("due").state == "cancelled"


def test_what_the_journal_has_of_events():
    """Those that changed something, with their hold; a failure has none."""
    sink = RecordingSink()
    server = StepServer(None, sink=sink)
    server.hello()
    server.submit(operation("a", "k"), operation("b", "l"))
    server.complete("k", 1, hold_ms=7)
    server.fail("l")
    server.complete("nobody")
    server.fail("nobody")
    server.pass_time(1)
    events = [(event.key, event.hold_ms, bool(event.failed)) for event in sink.events]
    assert events == [("k", 7, False), ("l", 0, True)]
    server.store.close()
