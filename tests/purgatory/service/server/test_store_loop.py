"""The store loop: how long it sleeps, what a failing disk does to it, and how it ends."""

import sqlite3

import pytest

from purgatory.service.encoding import decode_answer
from purgatory.service.protocol import Query, Submit
from purgatory.service.server.commands import StoreLoopStopped
from tests.testing.step_server import frames_of, operation


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


def test_an_unexpected_error_ends_the_server(server, monkeypatch):
    """After it, memory and disk might not agree any more."""
    monkeypatch.setattr(server.store, "commit", lambda changes: 1 // 0)
    server.post(Submit, [operation("a")])
    server.step()
    assert server.store_loop.finished()
    assert isinstance(server.store_loop.failure, ZeroDivisionError)
