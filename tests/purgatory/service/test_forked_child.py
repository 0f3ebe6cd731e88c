"""A forked child closes the connections of its parent's clients, and needs none of their locks."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from purgatory.service import Client, Unavailable, Worker
from purgatory.service.config import Config
from purgatory.service.forked_child import OPEN, OpenConnections
from purgatory.service.server.server import Server
from tests.testing.eventually import eventually
from tests.testing.forked_child import run_in_child
from tests.testing.purgatory_harness import HANG

# A worker whose handler forks a child that stays, then says so and does not return.
FORKING = """
import os, sys, time, warnings
from purgatory.service import Worker

warnings.simplefilter("ignore")
worker = Worker(sys.argv[1], name="jobs", lease=600)

@worker.on("work")
def run(job):
    if not os.fork():
        time.sleep(600)
        os._exit(0)
    print("forked", flush=True)
    time.sleep(600)

worker.start()
worker.wait()
"""


@pytest.fixture
def address():
    with Server(Config(memory=True, bind="tcp://127.0.0.1:*")) as server:
        yield server.address


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_killed_worker_whose_handler_has_forked(address):
    """Its job goes to another worker soon, though the child lives, and the lease is long."""
    command = [sys.executable, "-c", FORKING, address]
    with (
        Client(address, name="jobs") as client,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process,
    ):
        try:
            client.schedule(0, kind="work")
            assert process.stdout.readline() == "forked\n"
            done = threading.Event()
            worker = Worker(address, name="jobs")
            worker.on("work")(lambda job: done.set())
            with worker:
                process.kill()
                begin = time.monotonic()
                assert done.wait(HANG)
                assert time.monotonic() - begin < 10  # of a lease of 600 s
        finally:
            os.killpg(process.pid, 9)


@pytest.fixture
def pair():
    """Return both ends of a connection by TCP, and the address of the peer of the first one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    with one, other:
        yield one, other, f"tcp://127.0.0.1:{one.getpeername()[1]}"


def test_connections_are_closed(pair):
    """The other end is told."""
    one, other, address = pair
    connections = OpenConnections()
    connections.add(one.fileno(), address)
    connections.close_all()
    one.detach()
    assert other.recv(1) == b""
    connections.close_all()  # once


def test_a_file_that_got_the_descriptor_is_left_alone(pair):
    """ZeroMQ has closed the connection, and the client does not know yet."""
    one, _, address = pair
    connections = OpenConnections()
    descriptor = one.fileno()
    connections.add(descriptor, address)
    reading, writing = os.pipe()
    os.dup2(reading, descriptor)
    connections.close_all()
    os.write(writing, b"x")
    assert os.read(descriptor, 1) == b"x"
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("other", ["tcp://127.0.0.1:1", "ipc:///tmp/socket"])
def test_what_is_no_connection_of_the_client_is_not_noted(pair, other):
    """Another connection, a file, and what is closed."""
    one, _, address = pair
    connections = OpenConnections()
    connections.add(one.fileno(), other)
    reading, writing = os.pipe()
    connections.add(reading, address)
    os.close(reading)
    os.close(writing)
    connections.add(reading, address)
    assert connections._ends == {}


def test_a_client_notes_its_connection(address):
    """While it is connected."""
    before = len(OPEN._ends)
    with Client(address) as client:
        client.stats()
        eventually(lambda: len(OPEN._ends) == before + 1)
    assert len(OPEN._ends) == before


@contextlib.contextmanager
def held_by_another_thread(locks):
    """Have another thread hold locks meanwhile."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            done.wait(HANG)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(HANG)
        yield
    finally:
        done.set()
        thread.join(HANG)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_locks_that_another_thread_held_at_the_fork(address):
    """service.md: calls of the parent's client raise Unavailable, and `close` returns."""

    def refused():
        for call in (client.stats, client.flush, lease.__enter__):
            with pytest.raises(Unavailable):
                call()
        for call in (client.defer, client.complete, client.result):
            with pytest.raises(Unavailable):
                call("key")
        client.close()

    with Client(address, timeout=HANG) as client:
        lease = client.lease("printer")
        batcher, keeper = client._batcher, client.lease_calls.keeper
        locks = [batcher.lock, batcher._room_lock, client._job_waits._lock, keeper._changed]
        with held_by_another_thread([*locks, client._io_thread.turn._changed]):
            assert run_in_child(refused) == 0
        assert client.complete("key") == 0
