"""Clients with two addresses, over two servers in processes of their own and one PostgreSQL."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time

import pytest

from purgatory.service import AsyncClient, Client, Worker
from tests.testing.cluster_processes import ClusterProcess
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def pair(tmp_path, postgres):
    """An active server and a standby."""
    with contextlib.ExitStack() as stack:
        servers = []
        for name in "ab":
            server = ClusterProcess(tmp_path / name, postgres.url)
            servers.append(stack.enter_context(server))
            if name == "a":
                server.wait_until_active()
        a, b = servers
        eventually(lambda: b.cluster().get("active") == a.address)
        yield a, b


def both(pair):
    """Return the addresses of two servers, as a client is told them."""
    return ",".join(server.address for server in pair)


def hand_over(postgres):
    """Have the active server hand over."""
    command = [sys.executable, "-m", "purgatory", "store", "handover", "--store", postgres.url]
    subprocess.run(command, check=True, capture_output=True, timeout=HANG)


def cause(fault, a, postgres):
    """Have the active server end in one way, or go on saying nothing."""
    if fault == "handover":
        hand_over(postgres)
    else:
        {"kill": a.kill, "stop": a.freeze, "end": a.end}[fault]()


@pytest.mark.parametrize("fault", ["kill", "stop", "handover", "end"])
def test_a_client_goes_on(pair, postgres, fault):
    """Without a word of its program: what was on its way is done once, futures get their ends."""
    a, b = pair
    with Client(both((b, a)), timeout=HANG, name="shop") as client:  # the standby comes first
        waiting = [client.defer(f"k{n}", timeout=600) for n in range(300)]
        client.flush()
        counts = [client.complete_later(f"k{n}") for n in range(100)]
        cause(fault, a, postgres)
        counts += [client.complete_later(f"k{n}") for n in range(100, 200)]
        assert [count.result(HANG) for count in counts] == [1] * 200
        assert [client.complete(f"k{n}") for n in range(200, 300)] == [1] * 100
        assert [future.result(HANG) for future in waiting] == [None] * 300
        assert b.is_active()


def test_a_worker_goes_on(pair):
    """Its server is killed: jobs that come later are run by it, from the other server."""
    a, b = pair
    worker = Worker(both(pair), name="shop", concurrency=2)
    done = []

    @worker.on("mail")
    def send(job):
        done.append(job.payload)

    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        with Client(both(pair), timeout=HANG, name="shop") as client:
            client.schedule(0, kind="mail", payload=1).result(HANG)
            a.kill()
            client.schedule(0, kind="mail", payload=2).result(HANG)
    finally:
        worker.stop()
        thread.join(HANG)
    assert done == [1, 2]
    assert b.is_active()


def test_an_async_client_goes_on(pair):
    """It learns where the active server is from a standby, also if the list does not have it."""
    a, b = pair

    async def scenario():
        async with AsyncClient(b.address, timeout=HANG, name="shop") as client:
            future = client.defer("k", timeout=600)
            assert await client.complete("k", 7) == 1
            return await future

    assert asyncio.run(scenario()) == 7
    assert a.is_active()


def test_the_terminal_goes_on(pair, monkeypatch):
    """PURGATORY_ADDRESS holds several addresses; the standby may be the first."""
    monkeypatch.setenv("PURGATORY_ADDRESS", both(pair[::-1]))
    command = [sys.executable, "-m", "purgatory", "stats"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pending" in done.stdout


def test_how_soon(pair, record_testsuite_property):
    """The time from the end of the active server to the next answer, for the record."""
    a, b = pair
    with Client(both(pair), timeout=HANG, name="shop") as client:
        client.complete("k")
        a.kill()
        began = time.monotonic()
        client.complete("k")
        record_testsuite_property("seconds_to_next_answer", time.monotonic() - began)
    assert b.is_active()
