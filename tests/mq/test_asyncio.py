"""Sockets for asyncio."""

import asyncio

import pytest

import mq
import mq.asyncio


def run(scenario):
    """Run `scenario(push, pull)` on a new loop."""

    async def main():
        with mq.asyncio.Context() as context:
            with context.socket(mq.PUSH) as push, context.socket(mq.PULL) as pull:
                pull.bind("inproc://a")
                push.connect("inproc://a")
                await asyncio.wait_for(scenario(push, pull), 30)

    asyncio.run(main())


def test_waiting_receivers_are_served_in_turn():
    """The first who asked gets the first message; the descriptor's edges suffice for all."""

    async def scenario(push, pull):
        waiting = [pull.recv() for _ in range(100)]
        for number in range(100):
            await push.send(b"%d" % number)
        assert await asyncio.gather(*waiting) == [b"%d" % n for n in range(100)]

    run(scenario)


def test_a_full_pipe_makes_senders_wait():
    """Senders wait for room, and go on as it comes."""

    async def scenario(push, pull):
        sends = [push.send(b"%d" % n) for n in range(5000)]
        assert not sends[-1].done()
        assert [await pull.recv() for _ in range(5000)] == [b"%d" % n for n in range(5000)]
        await asyncio.gather(*sends)

    run(scenario)


def test_a_cancelled_recv_takes_nothing():
    """A message goes to the next who asks."""

    async def scenario(push, pull):
        pull.recv().cancel()
        await push.send(b"kept")
        assert await pull.recv() == b"kept"

    run(scenario)


def test_timeouts():
    """RCVTIMEO ends a recv with Again, a poll with 0."""

    async def scenario(_, pull):
        pull.rcvtimeo = 5
        with pytest.raises(mq.Again):
            await pull.recv()
        assert await pull.poll(5) == 0

    run(scenario)


def test_poll_and_recv_at_once():
    """A poll does not wait for the receivers before it."""

    async def scenario(push, pull):
        poll = pull.poll(None)
        received = pull.recv()
        await push.send(b"x")
        assert await received == b"x" or await poll

    run(scenario)
