"""Handles of repeats for asyncio, at a real server."""

import asyncio

from purgatory.service import AsyncClient
from tests.testing.purgatory_harness import HANG


def test_the_same_methods_are_awaited(server):
    """What a handle shows is what the server has told last."""

    async def main():
        async with AsyncClient(server.address, name="shop", timeout=HANG) as client:
            repeat = await client.repeat("r", every=60, kind="nobody", payload={"a": 1})
            assert (repeat.name, repeat.kind, repeat.payload) == ("r", "nobody", {"a": 1})
            assert (repeat.last, repeat.paused, repeat.skipped) == (None, False, 0)
            following = repeat.next
            assert await repeat.pause()
            assert (repeat.paused, repeat.next) == (True, None)
            [other] = await client.repeats()
            assert other.paused
            assert await other.resume()
            assert repeat.paused
            assert await repeat.refresh()
            assert (repeat.paused, repeat.next) == (False, following)
            assert await repeat.run()
            assert repeat.last is not None
            assert not await repeat.run()
            assert repeat.skipped == 1
            assert await repeat.delete()
            assert not await repeat.refresh()
            assert not await repeat.delete()
            assert list(await client.repeats()) == []
            assert repr(repeat) == "<AsyncRepeatHandle 'r' of 'shop'>"

    asyncio.run(main())
