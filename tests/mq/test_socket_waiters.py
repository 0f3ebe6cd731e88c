"""Waiting operations of a socket: in which order they go on, and which go on at all."""

import asyncio

import pytest

import mq as zmq
import mq.asyncio as amq


@pytest.mark.parametrize("leave", [amq.Socket.recv, amq.Socket.poll])
def test_an_operation_of_a_closed_loop_takes_nothing(asyncio_ctx, leave):
    """Its future will never be done; the next message is for an operation of the present loop."""

    async def leave_waiting(socket):
        return leave(socket)

    async def body(a, b):
        future = b.recv()
        await a.send(b"x")
        assert await asyncio.wait_for(future, 30) == b"x"

    with asyncio_ctx.socket(zmq.PUSH) as a, asyncio_ctx.socket(zmq.PULL) as b:
        b.bind("inproc://loops")
        a.connect("inproc://loops")
        loop = asyncio.new_event_loop()
        future = loop.run_until_complete(leave_waiting(b))
        loop.close()
        b.connect("inproc://others")  # looks at what waits
        asyncio.run(body(a, b))
        assert not future.done()


def test_a_check_of_a_poll_leaves_no_other_operation_waiting(run_in_loop):
    """The check may consume the signal of a message that a receive waits for."""

    async def test(a, b):
        for handle in (b, zmq.Socket(b), amq.Socket(b)):
            poller = amq.Poller()
            poller.register(handle, zmq.POLLOUT)  # which is none of a PULL
            received = b.recv()
            polling = [poller.poll(30_000) for _ in range(2)]
            await asyncio.sleep(0)
            zmq.Socket(a).send(b"x")
            assert await poller.poll(0) == []
            for poll in polling:
                poll.cancel()
            assert await asyncio.wait_for(received, 30) == b"x"

    run_in_loop(test)


@pytest.mark.parametrize(
    "look",
    [
        lambda b: b.get(zmq.EVENTS),
        lambda b: b.getsockopt(zmq.EVENTS),
        lambda b: b.EVENTS,
        lambda b: _polled(b),
        lambda b: b.disconnect("inproc://other"),
        lambda b: b.unbind("inproc://other"),
    ],
    ids=["get", "getsockopt", "attribute", "poll", "disconnect", "unbind"],
)
def test_who_processes_commands_leaves_no_operation_waiting(run_in_loop, look):
    """That consumes the signal of a message that a receive waits for."""

    async def test(a, b):
        b.connect("inproc://other")
        received = b.recv()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the receive has looked once
        zmq.Socket(a).send(b"x")
        look(b)
        assert await asyncio.wait_for(received, 10) == b"x"

    run_in_loop(test)


def _polled(socket):
    poller = amq.Poller()
    poller.register(socket)
    return poller.poll(0)


def test_two_handles_wait_for_one_socket(run_in_loop):
    """Each message goes to one of them, in the order of their calls."""

    async def test(a, b):
        other = amq.Socket(b)
        received = [b.recv(), other.recv(), b.recv(), other.recv()]
        for n in range(4):
            await a.send(b"%d" % n)
        assert await asyncio.gather(*received) == [b"0", b"1", b"2", b"3"]

    run_in_loop(test)


def test_a_blocking_socket_is_watched_only_while_a_poll_waits():
    """Then its descriptor may close, and the number be another's, which the loop watches."""
    ctx = zmq.Context()

    async def poll_in_vain(number):
        with ctx.socket(zmq.PULL) as blocking:
            blocking.bind(f"inproc://{number}")
            poller = amq.Poller()
            poller.register(blocking)
            assert await poller.poll(1) == []
            shadow = amq.Socket(blocking)
            shadow.rcvtimeo = 1
            with pytest.raises(zmq.Again):
                await shadow.recv()

    async def body():
        before = set(asyncio.get_running_loop()._selector.get_map())
        for number in range(5):
            await poll_in_vain(number)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert set(asyncio.get_running_loop()._selector.get_map()) == before

    asyncio.run(body())
    ctx.term()


def test_cancelled_polls_leave_nothing(run_in_loop):
    """Looked at by the names that pyzmq's own tests use."""

    async def test(_, b):
        for _ in range(3):
            polling = asyncio.ensure_future(b.poll(1000))
            await asyncio.sleep(0)
            assert len(b._recv_futures) == 1
            polling.cancel()
            while b._recv_futures:  # the operation of a cancelled poll goes some turns later
                await asyncio.sleep(0)

    run_in_loop(test)
