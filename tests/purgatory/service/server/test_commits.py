"""Commits: when a disk counts as well again, and a start on a disk that is full."""

import sqlite3

import pytest

from purgatory import StoreError
from purgatory.service.protocol import Failure, Submit, Submitted
from purgatory.service.server.commits import RETRY_MS
from purgatory.service.server.recovery import LEASE_EPOCH
from purgatory.service.server.server_health import report_health
from tests.testing.step_server import job, operation

LARGE, SMALL = 20_000, 2_000


@pytest.fixture
def server(step_server):
    return step_server


def is_ready(server):
    """Tell whether the server says that it is ready."""
    return not report_health(server.store_loop.activity, "", server.time.ms).not_ready


def submit(server, name, size):
    """Submit operations of about so many bytes; returns whether they were taken."""
    operations = [operation(f"{name} {n}", payload="x" * 900) for n in range(size // 1000)]
    server.post(Submit, operations, size=size)
    [reply] = server.step()[0]
    return isinstance(reply, Submitted)


def test_a_disk_with_room_for_what_is_small(server):
    """It is not well before it takes as much as the largest request that was refused."""
    server.faults.fail_above(SMALL + 1000)
    assert not submit(server, "large", LARGE)
    assert not is_ready(server)
    assert submit(server, "small", SMALL)
    assert not is_ready(server)
    for _ in range(3):
        server.pass_time(RETRY_MS)
        assert not is_ready(server)
    server.faults.fail_above(LARGE - 1000)  # room for a part of it
    server.pass_time(RETRY_MS)
    assert not is_ready(server)
    server.faults.clear()
    server.pass_time(RETRY_MS)
    assert is_ready(server)
    assert submit(server, "large", LARGE)


def test_what_waits_expires_in_time_on_such_a_disk(server):
    """Small commits go on: nothing of them waits for the next look at the disk."""
    server.faults.fail_above(SMALL + 1000)
    assert not submit(server, "large", LARGE)
    assert submit(server, "small", SMALL)
    server.ask(Submit, [operation("a", timeout_ms=100)])
    [outcome] = server.pass_time(101)
    assert outcome.op_id == "a"
    assert server.store_loop.max_sleep() <= RETRY_MS / 1000


def test_a_large_commit_that_succeeds(server):
    """The disk is well at once, without a look at it."""
    server.faults.fail_above(SMALL)
    assert not submit(server, "large", LARGE)
    server.faults.clear()
    assert submit(server, "again", LARGE)
    assert is_ready(server)
    assert server.store_loop.max_sleep() > RETRY_MS / 1000


def test_what_the_look_wrote_is_gone(server):
    """If its end was not written, the next start does not take it for metadata."""
    server.store.check_room(1000)
    kept = "SELECT count(*) FROM meta WHERE key = 'room'"
    assert server.store._connection.execute(kept).fetchone() == (0,)
    server.faults.fail_at(4)  # the commit of the deletion
    with pytest.raises(StoreError):
        server.store.check_room(1000)
    assert server.store._connection.execute(kept).fetchone() == (1,)
    assert "room" not in server.store.metadata()


def test_a_start_on_a_full_disk(server):
    """It answers what only reads, is not ready, and goes on as soon as there is room."""
    server.submit(operation("a"))
    server.faults.fail()
    server.crash()
    server.hello()
    assert not is_ready(server)
    assert server.query("a").state == "pending"
    assert isinstance(server.submit(operation("b")), Failure)
    server.faults.clear()
    server.pass_time(RETRY_MS)
    assert is_ready(server)
    assert isinstance(server.submit(operation("b")), Submitted)


def test_no_job_is_leased_before_the_epoch_is_on_disk(server):
    """Or the next run might give the same token to another worker."""
    server.submit(job("j", timeout_ms=10))
    server.pass_time(11)
    [first] = server.work()
    server.faults.fail()
    server.time.ms += 2000
    server.crash()
    server.hello()
    assert server.work() == []
    server.let_pass(2 * RETRY_MS)
    assert server.leased == []
    epoch = server.state.unnoted[LEASE_EPOCH]
    assert server.store.metadata()[LEASE_EPOCH] < epoch
    server.faults.clear()
    [second] = server.let_pass(2 * RETRY_MS)
    assert server.store.metadata()[LEASE_EPOCH] == epoch
    assert second.token > first.token
    server.time.ms -= 10_000
    server.crash()
    server.hello()
    [third] = server.work()
    assert third.token > second.token


def test_the_first_commit_has_the_clock_of_the_start(server):
    """What is submitted then has times by that clock: the next start has to know it."""
    server.faults.fail()
    server.time.boot = "another boot"
    server.crash()
    server.hello()
    epoch = server.state.unnoted[LEASE_EPOCH]
    server.faults.clear()
    assert isinstance(server.submit(operation("a")), Submitted)
    noted = server.store.metadata()
    assert noted["boot_id"] == "another boot"
    assert noted[LEASE_EPOCH] == epoch


def test_a_start_on_a_disk_that_fails_otherwise(server):
    """After such an error it is not known what is on it: the start fails."""
    server.faults.fail(sqlite3.SQLITE_IOERR, "disk I/O error")
    with pytest.raises(StoreError):
        server.crash()
    server.faults.clear()
    server.open()


@pytest.mark.parametrize(
    ("look_ms", "after_ms", "looks"), [(0, 0, False), (100, 99, False), (100, 100, True)]
)
def test_when_the_disk_is_asked(server, monkeypatch, look_ms, after_ms, looks):
    """At the time that was set, if one was: a disk that is well is left alone."""
    commits, start_ms, asked = server.store_loop._commits, server.time.ms, []
    monkeypatch.setattr(server.store, "set_metadata", asked.append)
    commits.look_ms = look_ms and start_ms + look_ms
    assert commits.look(start_ms + after_ms) is None
    assert bool(asked) is looks
