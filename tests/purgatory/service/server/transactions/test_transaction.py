"""A transaction is committed or rolled back as a whole."""

import gc

import pytest
from msgspec.structs import replace

from purgatory.service.encoding import encode
from purgatory.service.job_messages import CancelJobs, KindLimit, ReadLimits, SetLimit
from purgatory.service.protocol import (
    Acknowledge,
    Cancel,
    Complete,
    Completion,
    Fail,
    How,
    KeyFailure,
    Raw,
    Submit,
)
from tests.testing.step_server import StepServer, job, operation, result


@pytest.fixture
def server(step_server):
    return step_server


def test_a_failed_commit_rolls_everything_back(server):
    """Submits, completions, cancels, counted keys and expirations leave no trace."""
    server.submit(operation("a"), operation("b"), operation("c", "x", "y", need=2))
    server.submit(operation("d", timeout_ms=10))
    before = [server.query(op_id) for op_id in "abcd"]
    server.faults.fail()
    server.time.ms += 20
    server.post(Submit, [operation("new"), operation("short", timeout_ms=0)])
    server.post(Complete, [Completion("a's key"), Completion("x"), Completion("new's key")])
    server.post(Cancel, ["b"])
    replies, outcomes = server.step()
    assert [reply.code for reply in replies] == ["store"] * 3
    assert "disk is full" in replies[0].message
    assert outcomes == []
    server.faults.clear()
    assert [server.query(op_id) for op_id in "abcd"] == before
    assert server.query("new").state == "unknown"
    server.state.purgatory._check()
    assert server.submit(operation("new")).refused == []
    server.time.ms += 1
    count, outcomes = server.complete_and_push("a's key", 1)
    assert count == 1
    assert [(o.op_id, o.outcome) for o in outcomes] == [("d", "expired"), ("a", "completed")]


def test_limits_of_kinds_change_with_the_commit(server):
    """All of a transaction, or none."""
    set_limit = KindLimit("mail", False, 3, None)
    for fails in (True, False):
        if fails:
            server.faults.fail()
        for kind in ("mail", "news"):
            server.post(SetLimit, kind, None, 3)
        server.step(once=True)
        server.faults.clear()
        limits = server.ask(ReadLimits).limits
        assert limits == ([] if fails else [set_limit, replace(set_limit, kind="news")])
    server.crash()
    assert server.ask(ReadLimits).limits == limits


def test_an_operation_submitted_and_completed_in_a_failed_transaction(server):
    """It leaves nothing behind: no operation, no outcome, nothing that counts for its client."""
    server.faults.fail()
    server.post(Submit, [operation("a")])
    server.post(Complete, [Completion("a's key")])
    server.step()
    server.faults.clear()
    assert server.query("a").state == "unknown"
    assert server.state.total == 0
    assert server.state.clients.record("c").count == 0
    assert server.fetch_outcomes() == []


def test_a_bad_request_in_a_failed_transaction_is_answered(server):
    """Its refusal does not depend on the disk, so it is sent as well as those of the others."""
    server.faults.fail()
    server.post(Submit, [operation("a")])
    server.post(Complete, [Completion("k", Raw(encode("x" * 1000)))])
    replies, _ = server.step()
    assert {(reply.seq, reply.code) for reply in replies} == {(1, "store"), (2, "too-large")}
    assert server.handler.refused == 2


def test_outcomes_of_a_failed_transaction_cannot_be_acknowledged(server):
    """An acknowledgement that guesses the number, in that very transaction, has no effect."""
    server.submit(operation("a"))
    server.faults.fail()
    server.post(Complete, [Completion("a's key")])
    server.post(Acknowledge, [server.state.last_seq + 1])
    server.step()
    server.faults.clear()
    assert server.query("a").state == "pending"
    assert server.complete_and_push("a's key")[0] == 1


def test_what_has_ended_counts_towards_the_limit(tmp_path):
    """In the transaction that ended it too, before the outcome is unacknowledged."""
    server = StepServer(tmp_path / "b.db", pending=1)
    server.submit(operation("a"))
    server.post(Complete, [Completion("a's key")])
    server.post(Submit, [operation("b")], client="other")
    [_, submitted], _ = server.step()
    assert [refusal.code for refusal in submitted.refused] == ["too-many-pending"]
    server.store.close()


def test_a_repeated_submit_in_the_transaction_of_the_outcome(server):
    """It is answered with the outcome that has just been committed, and waits no second time."""
    server.submit(operation("a"))
    server.post(Complete, [Completion("a's key", Raw(encode(5)))])
    server.post(Submit, [operation("a")])
    [_, submitted], outcomes = server.step()
    assert [known.state for known in submitted.known] == ["completed"]
    assert [(o.number, result(o)) for o in outcomes] == [(1, 5)] * 2
    assert server.state.purgatory.delayed == 0


def test_what_is_rolled_back_is_not_counted(step_server):
    """Submissions that are refused are no cancelled operations, nor has one ended that waits."""
    lists = step_server.state.parts.lists
    step_server.submit(*[operation(op_id, op_id, timeout_ms=50) for op_id in "abcd"])
    step_server.complete("d")
    before = lists.outcomes()
    assert before == (1, 0, 0, 0)
    step_server.faults.fail()
    refused = step_server.handler.refused
    step_server.post(Submit, [operation(f"new{n}", "k") for n in range(5)])
    step_server.post(Submit, [operation("newer", "b")])
    step_server.post(Complete, [Completion("b")])
    step_server.post(Fail, [KeyFailure("a", "E")])
    step_server.post(Cancel, ["c"])
    step_server.step()
    assert step_server.handler.refused == refused + 9
    assert lists.outcomes() == before
    step_server.pass_time(2000)
    assert lists.outcomes() == before
    step_server.faults.clear()
    step_server.pass_time(2000)
    assert lists.outcomes() == (1, 0, 3, 0)
    lists._check()


def _wait_and_complete(server):
    server.submit(operation("a"), operation("b", "x", "y", need=2), operation("c"))
    server.complete("x")
    server.extend("c", 100)
    server.complete("a's key", limit=1, hold_ms=50)
    server.cancel("c")
    server.pass_time(2000)


def _spread(server):
    server.state.portion = 3
    server.submit(*[operation(f"op {number}", "k") for number in range(10)])
    server.complete("k")


def _run_jobs(server):
    server.work(attempts=2)
    server.submit(*[job(op_id) for op_id in "abc"])
    server.pass_time(1001)
    for how in (How.DONE, How.FAILED, How.RETURNED):
        server.finish(*server.leased[:1], how=how, error="no")
    server.ask(CancelJobs, ["c"])
    server.bye()


def _fail_to_commit(server):
    server.faults.fail()
    server.post(Submit, [operation("new")])
    server.step()
    server.faults.clear()


@pytest.mark.parametrize("work", [_wait_and_complete, _spread, _run_jobs, _fail_to_commit])
def test_nothing_is_left_to_the_cycle_collector(server, work):
    """It would stop all threads, for half a second with a million operations."""
    server.hello()
    gc.disable()
    # What other tests have left, and threads of theirs that end meanwhile, is not looked at; it
    # stays frozen, as the tests themselves: see tests/conftest.py.
    gc.freeze()
    try:
        work(server)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = {type(one).__name__ for one in gc.garbage if "purgatory" in type(one).__module__}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not ours
