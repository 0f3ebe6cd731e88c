"""Connections are let in while there are not too many descriptors, nor too many at a time."""

import contextlib
import errno
import os
import resource
import select
import socket
import sys
import time
from pathlib import Path

import pytest

from purgatory.service import Client
from purgatory.service.server.network import accept_gate, router_socket
from purgatory.service.server.network.accept_gate import (
    BEHIND_S,
    MAX_ARRIVALS,
    WINDOW_S,
    AcceptGate,
    most_descriptors,
)
from purgatory.service.server.network.flood_gates import FloodGates
from purgatory.service.server.network.unread_connections import UnreadConnections
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess

LINE = "no connection can be accepted at present: Too many open files"


@pytest.fixture
def listener():
    """A socket that listens, and takes nothing for ever: what is let in waits in its queue."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one


class Counted:
    """A gate of a process with `count` descriptors; each check comes in time."""

    def __init__(self, listener, most):
        self.count = 0
        self.time = 0.0
        self.gates = FloodGates(UnreadConnections())
        self.gate = AcceptGate(
            listener.fileno(),
            most,
            listener.fileno(),
            self.gates,
            now=lambda: self.time,
            count=lambda: self.count,
        )

    def check(self, count):
        self.time += 1.0
        self.count = count
        return self.come(0, behind=False, seconds=0.0)

    def come(self, arrivals, *, behind=True, seconds=0.01, is_memory_full=False):
        """Check when so many more have come; tells whether others are let in."""
        self.time += seconds
        self.gates.arrivals += arrivals
        self.gates.is_memory_full = is_memory_full
        self.gate.check(behind=behind)
        return self.gate.is_open


def lets_in(listener, seconds):
    """Tell whether a connection is let in within so many seconds."""
    with socket.socket() as stranger:
        stranger.settimeout(seconds)
        try:
            stranger.connect(listener.getsockname())
        except TimeoutError:
            return False
        return True


def test_it_is_closed_while_there_are_too_many(listener, caplog):
    """It opens when an eighth of them is gone, so not with each that goes."""
    counted = Counted(listener, 80)
    states = [counted.check(count) for count in (80, 81, 100, 71, 70, 70, 81)]
    assert states == [True, False, False, False, True, True, False]
    [line] = caplog.messages
    assert line.endswith("81 descriptors are open; expected at most 80")


def test_what_waits_comes_in_later(listener):
    """The system tries again; what was connected goes on meanwhile."""
    counted = Counted(listener, 8)
    with socket.create_connection(listener.getsockname(), HANG) as early:
        counted.check(9)
        there, _ = listener.accept()
        with there, socket.socket() as late:
            assert not lets_in(listener, 0.1)
            late.setblocking(False)
            assert late.connect_ex(listener.getsockname()) == errno.EINPROGRESS
            early.sendall(b"x")
            assert there.recv(1) == b"x"
            counted.check(1)
            writable = select.poll()  # for descriptors of any number
            writable.register(late, select.POLLOUT)
            assert writable.poll(HANG * 1000)
    assert lets_in(listener, HANG)


def test_it_counts_now_and_then(listener):
    """Not in each step of a busy server."""
    counted = Counted(listener, 80)
    counted.check(80)
    counted.count = 81
    assert counted.come(0, behind=False, seconds=0.0)


def test_a_system_without_filters(listener, monkeypatch, caplog):
    """All are let in, as before; there is a line about it a minute at most."""
    monkeypatch.setattr(router_socket, "_SO_ATTACH_FILTER", 9999)
    counted = Counted(listener, 8)
    for count in (9, 1, 9):
        counted.check(count)
    assert lets_in(listener, HANG)
    assert len(caplog.messages) == 1


def test_memory_that_is_full(listener):
    """None is let in while the thread cannot keep up, either: each may bring more than is read."""
    counted = Counted(listener, 80)
    assert counted.come(1, behind=False, is_memory_full=True)
    assert counted.come(1, seconds=BEHIND_S, is_memory_full=True)
    assert not counted.come(0, is_memory_full=True)
    assert counted.come(0, behind=False, is_memory_full=True)
    assert not counted.come(0, seconds=2 * BEHIND_S, is_memory_full=True)
    assert counted.come(0, is_memory_full=False)


def test_most_descriptors(monkeypatch):
    """Room for all clients, if the memory has it, and never all that the system allows."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    assert most_descriptors(80, 0) == most_descriptors(80, 1 << 30) == 80 + 10 + 128
    assert most_descriptors(10_000, 0) == 1024 - 32
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, 0))
    assert most_descriptors(8000, 0) == 9128
    assert most_descriptors(8000, 400_000_000) == 500 + 128


def test_open_descriptors(monkeypatch):
    """None left to look counts as too many, and a system that does not tell as 0."""
    before = accept_gate.open_descriptors()
    read, write = os.pipe()
    assert accept_gate.open_descriptors() == before + 2
    os.close(read)
    os.close(write)
    for error, count in ((errno.EMFILE, sys.maxsize), (errno.ENOENT, 0)):

        def fail(_, error=error):
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(os, "listdir", fail)
        assert accept_gate.open_descriptors() == count


def test_strangers_that_do_not_stop(tmp_path):
    """A server lets only so many in; its clients go on, and others come when there is room."""
    with (
        ServerProcess(tmp_path / "data", "--max-clients", "8") as serve,
        Client(serve.address, timeout=HANG) as client,
        contextlib.ExitStack() as strangers,
    ):
        client.stats()
        host, port = serve.address.removeprefix("tcp://").split(":")
        descriptors = Path(f"/proc/{serve.process.pid}/fd")

        def is_let_in():
            """Tell whether one more stranger is let in; it stays."""
            try:
                strangers.enter_context(socket.create_connection((host, int(port)), 0.5))
            except TimeoutError:
                return False
            return True

        def are_too_many():
            return is_let_in() and most_descriptors(8, 0) < len(list(descriptors.iterdir()))

        eventually(are_too_many)
        eventually(lambda: not is_let_in())
        client.defer("k", timeout=HANG)
        client.flush()
        strangers.close()
        with Client(serve.address, name="late", timeout=HANG) as late:
            assert late.complete("k") == 1
        code, errors = serve.end()
        assert code == 0
        assert "descriptors are open" in errors


def test_it_is_closed_while_too_many_come_at_a_time(listener):
    """For that it does not wait for the next count; it stays closed while there are too many."""
    counted = Counted(listener, 80)
    states = []
    for count, crowded in ((1, True), (1, False), (81, False), (81, True), (81, False), (1, False)):
        counted.count = count
        arrivals = MAX_ARRIVALS + 1 if crowded else 0
        states.append(counted.come(arrivals, behind=crowded, seconds=WINDOW_S / 5))
    assert states == [False, True, False, False, False, True]
    assert not counted.come(MAX_ARRIVALS + 1, seconds=2 * BEHIND_S)
    assert not lets_in(listener, 0.1)
    counted.come(0, behind=False)
    assert lets_in(listener, HANG)


def test_any_number_may_come_while_the_thread_keeps_up(listener):
    """As after a restart of the server, when all come again."""
    arrivals = Counted(listener, 80)
    assert all(arrivals.come(1000, behind=False) for _ in range(100))


def test_few_may_come_while_it_is_behind(listener):
    """Until it has caught up, or until the next window begins."""
    arrivals = Counted(listener, 80)
    assert arrivals.come(MAX_ARRIVALS + 1, seconds=BEHIND_S / 2)
    assert not arrivals.come(0, seconds=BEHIND_S)
    assert arrivals.come(0, behind=False)
    assert arrivals.come(1)
    assert not arrivals.come(0, seconds=2 * BEHIND_S)
    assert arrivals.come(0, seconds=WINDOW_S)
    assert arrivals.come(MAX_ARRIVALS)
    assert not arrivals.come(1)


def test_a_busy_server_lets_some_in(listener):
    """However long it has been behind: as many in each window."""
    arrivals = Counted(listener, 80)
    assert all(arrivals.come(MAX_ARRIVALS, seconds=WINDOW_S) for _ in range(100))


def test_one_line_a_minute_without_descriptors(monkeypatch, caplog):
    """However often it is checked."""
    now = [1000.0]
    gate = AcceptGate(-1, 0, 7, FloodGates(UnreadConnections()), now=lambda: now[0])
    copied = []

    def refuse(descriptor):
        copied.append(descriptor)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", refuse)
    for _ in range(1200):
        gate.check(behind=False)
        now[0] += 0.1
    first, second = caplog.messages
    assert first == LINE
    assert second.startswith(f"{LINE} (and ")
    assert len(copied) <= 120


@contextlib.contextmanager
def no_descriptors():
    """Let the process open no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("words", [b"", b"\xff" + bytes(8) + b"\x7f\x03", b"GET / HTTP/1.1\r\n"])
def test_out_of_descriptors(serve, connect, peer, caplog, words):
    """The clients that are there are served; others are as soon as there is room."""
    server = serve()
    client = connect(server)
    client.stats()
    host, port = server.address.removeprefix("tcp://").split(":")
    late = peer(server)
    strangers = [socket.socket() for _ in range(50)]
    for one in strangers:
        one.settimeout(HANG)
    with no_descriptors():
        for one in strangers:
            one.connect((host, int(port)))
            one.sendall(words)
        deadline = time.monotonic() + HANG
        count = 0
        while LINE not in caplog.messages or count < 20:
            assert time.monotonic() < deadline
            client.defer(f"k{count}", timeout=HANG)
            client.flush()
            count += 1
    assert caplog.messages.count(LINE) == 1
    late.hello()
    assert client.complete("k0") == 1
    for one in strangers:
        one.close()
