"""Named leases of coroutines, at a real server."""

import asyncio

import pytest

from purgatory.service import AsyncClient, LeaseTimeout
from tests.testing.purgatory_harness import HANG


def test_one_coroutine_has_it(server):
    """Others wait in turn; one that times out or is cancelled leaves the queue."""
    leases = server.state.named_leases

    async def main():
        async with AsyncClient(server.address) as client:
            async with client.lease("n", keep=HANG) as lease:
                assert repr(lease) == "<AsyncLeaseHandle 'n', held>"
                with pytest.raises(LeaseTimeout):
                    await client.lease("n", timeout=0.01).__aenter__()
                with pytest.raises(RuntimeError, match="already"):
                    await lease.__aenter__()
                waiters = [asyncio.ensure_future(wait(client)) for _ in range(2)]
                while len(leases.by_name["n"].waiters) < 2:
                    await asyncio.sleep(0.001)
                waiters[0].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiters[0]
            assert await waiters[1] > lease.token
        assert leases.by_name == {}

    async def wait(client):
        async with client.lease("n", keep=HANG, timeout=HANG) as lease:
            return lease.token

    asyncio.run(main())


def test_a_lease_that_is_lost_in_a_coroutine(server):
    """Its event tells the loop; the handle's next lease has another event."""

    async def main():
        async with AsyncClient(server.address) as client:
            async with client.lease("n", keep=0.3) as lease:
                assert not lease.lost.is_set()
                holder = server.state.named_leases.by_name["n"].held.holder
                await client.result_of(client.calls.lease_calls.end("n", holder))
                await asyncio.wait_for(lease.lost.wait(), HANG)
                assert repr(lease) == "<AsyncLeaseHandle 'n', lost>"
            async with lease:
                assert not lease.lost.is_set()

    asyncio.run(main())
