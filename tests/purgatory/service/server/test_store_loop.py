"""The store loop: how long it sleeps, what a failing disk does to it, and how it ends."""

import gc
import sqlite3
from sysconfig import get_config_var

import pytest
from msgspec import Raw

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.job_messages import Repeat, SetRepeat, TakeLease
from purgatory.service.protocol import (
    Acknowledge,
    Cancel,
    Complete,
    Completed,
    Completion,
    Extend,
    Fail,
    Failure,
    Finish,
    KeyFailure,
    Query,
    Submit,
    TimeoutExtension,
    Work,
)
from purgatory.service.server.commands import RunTransaction, StoreLoopStopped, StoreReleased
from purgatory.service.server.records import retention
from purgatory.service.server.store_loop import MANY_ENDS
from purgatory.service.store.rows import JournalPosition
from tests.testing.step_server import RecordingSink, StepServer, frames_of, job, operation, result


@pytest.fixture
def server(step_server):
    return step_server


def test_the_longest_sleep(server):
    """The loop sleeps until an operation or the maintenance is due."""
    server.step()
    assert server.store_loop.max_sleep() == pytest.approx(60, abs=0.01)
    server.submit(operation("a", timeout_ms=10))
    assert server.store_loop.max_sleep() == pytest.approx(0.01025)
    server.time.ms += 20
    assert server.store_loop.max_sleep() == 0


@pytest.mark.parametrize("fails", [False, True], ids=["well", "full"])
def test_what_is_due_when_the_loop_wakes_is_done(tmp_path, monkeypatch, fails):
    """Else the loop would spin; whatever has woken it, and also after a failed commit."""
    monkeypatch.setattr(retention, "DELETED_PER_TRANSACTION", 1)
    server = StepServer(tmp_path / "a.db", sink=RecordingSink())
    server.hello()
    server.submit(operation("a"), operation("late", timeout_ms=3000), job("j", timeout_ms=5))
    server.complete("held", hold_ms=700)
    server.complete("a's key")
    server.sink.confirm(JournalPosition(9, 9, 9, 9, 9))
    server.acknowledge(1)
    server.ask(SetRepeat, Repeat("r", every_ms=40_000, kind="none"))
    server.ask(TakeLease, "n", "holder", 2000, 0)
    server.pass_time(6)
    assert server.work(lease_ms=1500)
    if fails:
        server.faults.fail()
        server.post(Submit, [operation("refused")])
        server.step()
    for wakes in range(60):
        slept = server.store_loop.max_sleep()
        assert slept > 0, wakes
        server.time.us += round(slept * 1_000_000)
        server.step(once=True)
        if wakes == 3:
            server.faults.clear()
    assert not server.state.journal_numbers.has_deletable
    server.store.close()


def test_the_store_is_released_before_a_sleep_alone(server, monkeypatch):
    """So the network thread may have it meanwhile; not before a look for commands."""
    loop, sent = server.store_loop, []

    def send(command):
        sent.append(command)
        loop.mailbox.send(RunTransaction())  # ends the sleep

    monkeypatch.setattr(loop, "_send", send)
    server.post(Submit, [operation("a")])
    server.step()
    assert not any(isinstance(command, StoreReleased) for command in sent)
    while loop.mailbox.depth:
        loop.wait(0)
    taken = loop.unreleased
    sent.clear()
    loop.wait(None)
    assert [(type(command), command.commands) for command in sent] == [(StoreReleased, taken)]


def test_an_earlier_deadline_shortens_the_sleep(server):
    """A submit after the sleep was computed makes the loop compute it again."""
    server.submit(operation("late", timeout_ms=60_000))
    assert server.store_loop.max_sleep() > 50
    server.submit(operation("early", timeout_ms=1000))
    assert server.store_loop.max_sleep() <= 1.001
    server.submit(operation("earlier", timeout_ms=10))
    assert [outcome.op_id for outcome in server.pass_time(500)] == ["earlier"]
    assert [outcome.op_id for outcome in server.pass_time(600)] == ["early"]
    assert server.store_loop.max_sleep() > 50
    assert server.pass_time(10_000) == []
    assert [outcome.op_id for outcome in server.pass_time(60_000)] == ["late"]


def test_replies_do_not_wait_for_reads(server, monkeypatch):
    """What was changed is answered before queries are."""
    server.submit(operation("a", "k"))
    server.complete("k")
    sent = []
    find = server.store.outcomes_by_seqs

    def record(seqs):
        frames = [frame for command in server.sent for _, frame in frames_of(command)]
        sent.append([type(decode_answer(frame)).__name__ for frame in frames])
        return find(seqs)

    monkeypatch.setattr(server.store, "outcomes_by_seqs", record)
    server.post(Query, ["a"], client="other")
    server.post(Submit, [operation("b")])
    server.step()
    assert sent == [["Submitted"]]


def test_a_failing_disk_is_not_asked_all_the_time(server):
    """Expirations are tried again after a second."""
    server.submit(operation("a", timeout_ms=10))
    server.faults.fail()
    server.pass_time(20)
    assert server.store_loop.activity.commit_failures == 1
    assert 0.9 < server.store_loop.max_sleep() <= 1
    server.pass_time(10)
    assert server.store_loop.activity.commit_failures == 1
    server.pass_time(1000)
    assert server.store_loop.activity.commit_failures == 2


def test_a_disk_that_cannot_be_relied_on_ends_the_server(server):
    """The request is not answered, as it may be on disk, and nothing more is done."""
    server.faults.fail(code=sqlite3.SQLITE_IOERR, message="disk I/O error")
    server.post(Submit, [operation("a")])
    assert server.step() == ([], [])
    assert server.store_loop.finished()
    server.store_loop.shut_down()
    [stopped] = [command for command in server.sent if isinstance(command, StoreLoopStopped)]
    assert "disk I/O error" in str(stopped.error)


def test_an_unexpected_error_of_a_commit_ends_the_server(server, monkeypatch):
    """After it, memory and disk might not agree any more."""
    monkeypatch.setattr(server.store, "commit", lambda changes: 1 // 0)
    server.post(Submit, [operation("a")])
    server.step()
    assert server.store_loop.finished()
    assert isinstance(server.store_loop.failure, ZeroDivisionError)


# Requests that no client can send: what is wrong is found in the middle of handling them.
FAULTY = [
    (Cancel, [["not a text"]]),
    (Extend, [TimeoutExtension("a", 5), TimeoutExtension(["not a text"], 5)]),
    (Complete, [Completion("k"), Completion(["not a text"])]),
    (Fail, [KeyFailure("k", "E", "why"), KeyFailure("k", ["not a text"])]),
    (Submit, [operation("new"), operation("newer", None)]),
    (Finish, [None]),
    (Acknowledge, None),
    (Work, 5, 1, 100),
]


@pytest.mark.parametrize("faulty", FAULTY, ids=lambda faulty: faulty[0].__name__)
def test_a_request_that_brings_out_a_fault_is_refused(server, faulty):
    """What it did is undone; other requests of the transaction are done, each once."""
    server.submit(operation("a", "k"), operation("b", "b"), operation("c", "c"))
    server.post(Complete, [Completion("b", Raw(encode(7)))], session="s", client="other")
    server.post(*faulty, session="s")
    server.post(Complete, [Completion("c")], client="third")
    replies, outcomes = server.step(once=True)
    assert server.store_loop.failure is None
    assert sorted(type(reply).__name__ for reply in replies) == ["Completed"] * 2 + ["Failure"]
    [failure] = [reply for reply in replies if isinstance(reply, Failure)]
    assert failure.code == "internal"
    assert [reply.counts for reply in replies if isinstance(reply, Completed)] == [[1], [1]]
    assert sorted(outcome.op_id for outcome in outcomes) == ["b", "c"]
    assert server.query("a").state == "pending"
    assert server.query("new").state == "unknown"
    server.crash()
    server.hello()
    assert server.query("b").state == server.query("c").state == "completed"
    assert server.complete("k").counts == [1]


@pytest.mark.skipif(
    bool(get_config_var("Py_GIL_DISABLED")), reason="this collector has no generations"
)
def test_objects_that_the_collector_has_seen_once(server):
    """It looks at them again after some transactions, not when there are a hundred thousand."""
    looks = []

    def note(phase, info):
        if phase == "stop":
            looks.append(info["generation"])

    before = gc.get_threshold()
    gc.set_threshold(10**6, 3, 10**6)  # by itself it does not look
    gc.callbacks.append(note)
    try:
        gc.collect()
        looks.clear()
        for turn in range(12):
            server.submit(*[operation(f"{turn}-{n}", "k") for n in range(MANY_ENDS)])
            server.complete("k")
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert (looks.count(0), looks.count(1)) == (9, 3)


@pytest.mark.parametrize("count", [1, 5, 6, 11])
def test_a_start_finishes_an_event(tmp_path, count):
    """However many operations it is for, before a command is handled."""
    server = StepServer(tmp_path / "a.db", portion=1)
    server.submit(*(operation(str(n), "k") for n in range(count)))
    server.post(Complete, [Completion("k", Raw(encode(7)))])
    server.step(once=True)
    server.crash()
    assert not server.state.spreads.in_order
    assert server.state.purgatory.delayed == 0
    server.hello()
    assert [result(outcome) for outcome in server.fetch_outcomes()] == [7] * count
    server.store.close()


def test_outcomes_are_fetched(server):
    """Those after the number that the client has."""
    server.submit(operation("a", "k"), operation("b", "k"))
    server.complete("k")
    assert [outcome.op_id for outcome in server.fetch_outcomes()] == ["a", "b"]
    assert [outcome.op_id for outcome in server.fetch_outcomes(after=1)] == ["b"]


@pytest.mark.parametrize("failure", [StoreFenced("another epoch"), StoreError("lost", fatal=True)])
def test_an_end_in_the_log(step_server, monkeypatch, caplog, failure):
    """Only a server that ends shows where; one that was replaced stands by, as it logs later."""

    def refuse(changes):
        raise failure

    monkeypatch.setattr(step_server.store, "commit", refuse)
    step_server.post(Submit, [operation("a")])
    step_server.step()
    assert step_server.store_loop.failure is failure
    assert ("the server ends" in caplog.text) is not isinstance(failure, StoreFenced)
