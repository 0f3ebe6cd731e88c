"""What is tied to a connection or a thread refuses to be copied and pickled."""

import asyncio
import copy
import pickle

import pytest

from purgatory.service import AsyncClient, Worker
from purgatory.service.config import Config
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG

COPIES = [copy.copy, copy.deepcopy, pickle.dumps]


def check(copied, *things):
    """Check that each thing refuses."""
    for thing in things:
        with pytest.raises(TypeError, match="cannot be copied or pickled: it "):
            copied(thing)


@pytest.mark.parametrize("copied", COPIES)
def test_clients_and_their_handles(server, connect, copied):
    """A copy would share half a connection."""
    client = connect(server, name="shop")
    future = client.defer("k", timeout=HANG)
    answer = client.stats_later()
    job, repeat = client.schedule("1h"), client.repeat("r", every="1h")
    check(copied, client, future, answer, job, repeat, client.lease("a"))
    client.complete("k", 5)
    assert future.result(HANG) == 5
    check(copied, future)


@pytest.mark.parametrize("copied", COPIES)
def test_async_clients_and_their_handles(server, copied):
    """So would a copy of theirs."""

    async def main():
        async with AsyncClient(server.address, timeout=HANG) as client:
            future = client.defer("k", timeout=HANG)
            job, repeat = await client.schedule("1h"), await client.repeat("r", every="1h")
            check(copied, client, future, job, repeat, client.lease("a"))
            await client.complete("k", 5)
            assert await future == 5

    asyncio.run(main())


@pytest.mark.parametrize("copied", COPIES)
def test_workers_and_servers(copied):
    """They have locks and threads."""
    daemon = ServiceDaemon(Config(memory=True, bind="tcp://127.0.0.1:0"))
    check(copied, Worker("tcp://127.0.0.1:9", name="w"), daemon, daemon.server)
