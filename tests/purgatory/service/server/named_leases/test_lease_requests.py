"""Requests about named leases, through a server."""

import pytest

from purgatory.service.job_messages import (
    EndLease,
    KeepLease,
    LeaseKept,
    LeaseReady,
    LeaseTaken,
    TakeLease,
)
from purgatory.service.protocol import Failure
from purgatory.service.server.commands import ClientConnected, ClientDisconnected, ClientRequest
from tests.testing.step_server import StepServer

KEEP_MS = 5000


def ask(server, request, *fields, route=b"r", client="c"):
    """Send a request of a connection; returns all messages that the server sends."""
    server.seq += 1
    message = request(server.seq, *fields)
    server.store_loop.mailbox.send(ClientRequest(route, client, message, 1))
    return server.step()[0]


def take(server, holder, name="n", wait_ms=60_000, route=b"r"):
    """Take a lease; returns its token."""
    [reply] = ask(server, TakeLease, name, holder, KEEP_MS, wait_ms, route=route)
    assert isinstance(reply, LeaseTaken)
    return reply.token


def test_two_programs(step_server):
    """The second is told when the first has ended its lease; it asks again, and has it."""
    server = step_server
    server.send(ClientConnected(b"s", "other", 0))
    first = take(server, "a")
    assert take(server, "b", route=b"s") is None
    kept, ready = ask(server, EndLease, "n", "a")
    assert isinstance(kept, LeaseKept)
    assert kept.done
    assert ready == LeaseReady("n", "b")
    second = take(server, "b", route=b"s")
    assert second > first
    [kept] = ask(server, KeepLease, "n", "a", KEEP_MS)
    assert not kept.done


def test_a_lease_lasts_over_a_restart(step_server):
    """As it was kept last; tokens grow."""
    server = step_server
    token = take(server, "a")
    server.time.ms += 3000
    [kept] = ask(server, KeepLease, "n", "a", KEEP_MS)
    assert kept.done
    server.crash()
    assert take(server, "b", wait_ms=0) is None
    server.pass_time(KEEP_MS - 1)
    assert take(server, "b", wait_ms=0) is None
    server.pass_time(1)
    assert server.store.named_leases() == []
    assert take(server, "b", wait_ms=0) > token


def test_time_wakes_the_server(step_server):
    """It sleeps until the lease ends, and then tells the waiter."""
    server = step_server
    take(server, "a")
    take(server, "b")
    assert 0 < server.store_loop.max_sleep() <= KEEP_MS / 1000
    server.time.ms += KEEP_MS
    assert server.store_loop.max_sleep() == 0
    assert server.step()[0] == [LeaseReady("n", "b")]


def test_a_connection_that_ends(step_server):
    """Its lease lasts; its wait is skipped until it is back."""
    server = step_server
    server.send(ClientConnected(b"s", "other", 0))
    take(server, "a", route=b"s")
    take(server, "b", route=b"s")
    take(server, "c")
    server.send(ClientDisconnected("other", b"s"))
    assert take(server, "d", wait_ms=0) is None
    server.time.ms += KEEP_MS
    assert server.step()[0] == [LeaseReady("n", "c")]


def test_a_commit_that_fails(step_server):
    """The request is refused, and nothing has changed; nobody is told."""
    server = step_server
    token = take(server, "a")
    take(server, "b")
    server.faults.fail()
    [reply] = ask(server, EndLease, "n", "a")
    assert isinstance(reply, Failure)
    assert reply.code == "store"
    server.faults.clear()
    assert take(server, "a") == token


@pytest.mark.parametrize(
    ("request_type", "fields", "code"),
    [
        (TakeLease, ("", "a", 5000, 0), "malformed"),
        (TakeLease, ("n", "", 5000, 0), "malformed"),
        (TakeLease, ("n", "a", 99, 0), "malformed"),
        (TakeLease, ("n", "a", 10**12, 0), "too-long"),
        (TakeLease, ("n", "a", 5000, -1), "malformed"),
        (TakeLease, ("n" * 1001, "a", 5000, 0), "too-large"),
        (KeepLease, ("n", "a", 0), "malformed"),
        (EndLease, ("", "a"), "malformed"),
    ],
)
def test_bad_requests(step_server, request_type, fields, code):
    """Are refused, and leave nothing."""
    [reply] = ask(step_server, request_type, *fields)
    assert isinstance(reply, Failure)
    assert reply.code == code
    assert step_server.state.named_leases.by_name == {}


def test_memory(tmp_path):
    """Leases and waiters count towards the server's memory."""
    server = StepServer(tmp_path / "a.db")
    before = server.state.memory_bytes
    take(server, "a")
    one = server.state.memory_bytes
    take(server, "b")
    assert before < one < server.state.memory_bytes
    ask(server, EndLease, "n", "b")
    ask(server, EndLease, "n", "a")
    assert server.state.memory_bytes == before
    server.store.close()
