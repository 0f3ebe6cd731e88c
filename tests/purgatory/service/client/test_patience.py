"""Patience: futures of operations end also while no server answers."""

import asyncio
import signal
import time

import pytest

from purgatory.service import AsyncClient, RequestTimeout
from purgatory.service.client.futures import ServiceFuture
from purgatory.service.client.patience import Patience
from tests.testing.eventually import eventually
from tests.testing.frozen_process import freeze
from tests.testing.purgatory_harness import HANG, free_port
from tests.testing.server_processes import ServerProcess


@pytest.fixture
def process(tmp_path):
    """A server in a process of its own."""
    with ServerProcess(tmp_path / "data") as server:
        yield server


class Bench:
    """A patience of 10 s, with a clock that the test moves."""

    def __init__(self):
        self.now, self.futures = 100.0, {}
        self.patience = Patience(self.futures, 10.0, lambda: self.now)

    def defer(self, op_id, seconds):
        give_up_at = self.patience.give_up_at(1000 * seconds)
        future = self.futures[op_id] = ServiceFuture(None, op_id, give_up_at)
        return future


def test_it_ends_what_is_overdue():
    """After the operation's timeout and the client's, and not while a server answers."""
    bench = Bench()
    short, long = bench.defer("short", 1), bench.defer("long", 50)
    bench.now = 105.0
    bench.patience.look(None)
    assert bench.patience.next_look_at is None
    bench.patience.look(104.0)
    assert bench.patience.next_look_at == 114.0
    bench.now = 114.0
    bench.patience.look(104.0)
    with pytest.raises(RequestTimeout, match="'short': no server has answered for 10 s"):
        short.result(0)
    assert not long.done()
    bench.now = bench.patience.next_look_at
    assert bench.now == 124.0
    bench.patience.look(104.0)
    bench.now = bench.patience.next_look_at
    bench.patience.look(104.0)
    bench.now = 159.9
    bench.patience.look(104.0)
    assert not long.done()
    bench.now = bench.patience.next_look_at
    bench.patience.look(104.0)
    assert long.done()
    assert bench.futures == {}


def test_an_extension():
    """It counts from now, and never ends an operation earlier."""
    bench = Bench()
    future = bench.defer("a", 60)
    bench.patience.extend("a", 1000)
    bench.patience.extend("unknown", 1000)
    assert future.give_up_at == 170.0
    bench.now = 130.0
    bench.patience.extend("a", 60_000)
    assert future.give_up_at == 200.0


def test_no_server(connect):
    """`defer` ends, in its time."""
    client, began = connect(f"tcp://127.0.0.1:{free_port()}", timeout=0.2), time.monotonic()
    future, longer = client.defer("k", timeout=0.1), client.defer("l", timeout=HANG)
    with pytest.raises(RequestTimeout, match="no server has answered"):
        future.result(HANG)
    assert time.monotonic() - began >= 0.3
    assert not longer.done()


def test_no_server_for_an_event_loop():
    """The same for what is awaited."""

    async def scenario():
        async with AsyncClient(f"tcp://127.0.0.1:{free_port()}", timeout=0.2) as client:
            with pytest.raises(RequestTimeout, match="no server has answered"):
                await client.defer("k", timeout=0.1)

    asyncio.run(asyncio.wait_for(scenario(), HANG))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_server_that_goes(process, connect, number, is_acknowledged):
    """It is killed or stopped before, or after, it has the operation."""
    client = connect(process.address, timeout=0.5, lost_after=60.0)
    client.stats_later().result(HANG)
    if is_acknowledged:
        future = client.defer("k", timeout=HANG)  # it must not expire before the server goes
        client.flush(HANG)
    if number == signal.SIGSTOP:
        freeze(process.process.pid)
    else:
        process.process.send_signal(number)
    if not is_acknowledged:
        future = client.defer("k", timeout=0.1)
    else:
        future.give_up_at = client.platform.monotonic()  # as callers set it by `extend`
        if number == signal.SIGSTOP:
            client.stats_later()  # it asks, and hears nothing
    with pytest.raises(RequestTimeout, match="no server has answered"):
        future.result(HANG)


def test_a_server_that_comes_back(process, connect):
    """An operation whose time is not over goes on; its outcome comes."""
    client = connect(process.address, timeout=HANG)
    future, later = client.defer("k", timeout=0.5), client.defer("l", timeout=HANG)
    client.flush()
    process.kill()
    process.start()
    assert type(future.exception(HANG)).__name__ == "OperationExpired"
    assert client.complete("l", 5) == 1
    assert later.result(HANG) == 5


def test_a_stopped_server_is_noticed(process, connect):
    """After `lost_after`; the client is connected again when the server goes on."""
    client = connect(process.address, lost_after=0.6)
    client.stats()
    freeze(process.process.pid)
    eventually(lambda: client._io_thread.connection_error)
    answer = client.complete_later("k")
    process.process.send_signal(signal.SIGCONT)
    assert answer.result(HANG) == 0
