"""Sockets whose operations return futures."""

import asyncio
import os
import threading

import pytest

import mq as zmq
import mq.asyncio as amq

URL = "inproc://asyncio"


@pytest.fixture
def ctx():
    """A context of asyncio sockets."""
    context = amq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def run(ctx):
    """Runs a coroutine function with a connected pair of sockets, within 30 seconds."""

    def runner(test, sender=zmq.PUSH, receiver=zmq.PULL):
        async def body():
            with ctx.socket(sender) as a, ctx.socket(receiver) as b:
                b.bind(URL)
                a.connect(URL)
                await asyncio.wait_for(test(a, b), 30)

        asyncio.run(body())

    return runner


def test_receive_waits_for_a_send(run):
    """Receives that came first get the messages, in turn."""

    async def test(a, b):
        waiting = [b.recv(), b.recv_multipart()]
        await asyncio.sleep(0)
        assert not any(future.done() for future in waiting)
        await a.send(b"1")
        await a.send_multipart([b"2", b"3"])
        assert await asyncio.gather(*waiting) == [b"1", [b"2", b"3"]]

    run(test)


def test_a_thread_sends(run):
    """A message from another thread wakes the loop."""

    async def test(a, b):
        future = b.recv_string()
        blocking = zmq.Socket(a)
        thread = threading.Thread(target=blocking.send_string, args=("hello",))
        thread.start()
        assert await future == "hello"
        thread.join()

    run(test)


def test_many_messages_one_edge(run):
    """All messages are received although the descriptor signals only the first."""

    async def test(a, b):
        for n in range(500):
            await a.send_json(n)
        assert [await b.recv_json() for _ in range(500)] == list(range(500))

    run(test)


def test_send_waits_for_room(run):
    """A send to a full peer is done when there is room."""

    async def test(a, b):
        for n in range(2000):
            await a.send(b"%d" % n)
        late = a.send(b"late")
        await asyncio.sleep(0)
        assert not late.done()
        for n in range(2000):
            assert await b.recv() == b"%d" % n
        await late
        assert await b.recv() == b"late"

    run(test)


def test_request_and_reply_at_once(run):
    """A socket may be waited on for sending and receiving at the same time."""

    async def test(a, b):
        async def serve():
            for _ in range(100):
                await b.send(await b.recv())

        server = asyncio.ensure_future(serve())
        for n in range(100):
            await a.send(b"%d" % n)
            assert await a.recv() == b"%d" % n
        await server

    run(test, zmq.REQ, zmq.REP)


def test_cancelled_receives_take_nothing(run):
    """A message goes to the next receive that is still wanted."""

    async def test(a, b):
        first, second = b.recv(), b.recv()
        first.cancel()
        await a.send(b"x")
        assert await second == b"x"
        assert len(b._recv_futures) == 0

    run(test)


def test_timeouts(run):
    """RCVTIMEO makes a future fail with Again, and SNDTIMEO too."""

    async def test(a, b):
        b.rcvtimeo = 10
        with pytest.raises(zmq.Again):
            await b.recv()
        with pytest.raises(zmq.Again):
            await b.recv(zmq.DONTWAIT)
        lonely = b.context.socket(zmq.PUSH)
        lonely.sndtimeo = 10
        with pytest.raises(zmq.Again):
            await lonely.send(b"x")
        lonely.close()

    run(test)


def test_poll(run):
    """poll resolves with the events, or 0 when its time is up; cancelling leaves nothing behind."""

    async def test(a, b):
        assert await b.poll(1) == 0
        assert await a.poll(1000, zmq.POLLOUT) == zmq.POLLOUT
        future = b.poll(30_000)
        await a.send(b"x")
        assert await future == zmq.POLLIN
        await b.recv()
        forgotten = b.poll(30_000)
        forgotten.cancel()
        while b._recv_futures:
            await asyncio.sleep(0)  # a turn of the loop, in which callbacks run

    run(test)


def test_poller_takes_all_kinds(run):
    """asyncio sockets, blocking ones and descriptors in one poller."""

    async def test(a, b):
        r, w = os.pipe()
        blocking = zmq.Socket(b)
        poller = amq.Poller()
        poller.register(blocking, zmq.POLLIN)
        poller.register(r, zmq.POLLIN)
        assert await poller.poll(1) == []
        future = poller.poll(30_000)
        await asyncio.sleep(0)
        os.write(w, b"x")
        assert await future == [(r, zmq.POLLIN)]
        os.read(r, 1)
        future = poller.poll()
        await a.send(b"x")
        assert await future == [(blocking, zmq.POLLIN)]
        os.close(r)
        os.close(w)

    run(test)


def test_close_cancels(run):
    """Operations that wait when their socket is closed are cancelled."""

    async def test(_, b):
        future = b.recv()
        b.close()
        with pytest.raises(asyncio.CancelledError):
            await future

    run(test)


def test_term_fails_what_waits(ctx):
    """Futures that wait fail with ETERM when their context ends."""

    async def body():
        with ctx.socket(zmq.PULL) as pull:
            future = pull.recv()
            thread = threading.Thread(target=ctx._core.term)
            thread.start()
            with pytest.raises(zmq.ContextTerminated):
                await asyncio.wait_for(future, 30)
        thread.join()

    asyncio.run(body())


def test_one_socket_in_several_loops(ctx):
    """A socket may be used in one loop after another."""
    with ctx.socket(zmq.PUSH) as a, ctx.socket(zmq.PULL) as b:
        b.bind(URL)
        a.connect(URL)

        async def body():
            future = b.recv()
            await a.send(b"x")
            assert await future == b"x"

        for _ in range(3):
            asyncio.run(body())


def test_instances_are_apart():
    """The asyncio context has an instance of its own."""
    one, two = zmq.Context.instance(), amq.Context.instance()
    assert (type(one), type(two)) == (zmq.Context, amq.Context)
    one.term()
    two.term()


def test_a_poll_whose_message_another_operation_takes(run):
    """It goes on waiting, and is told of the next message."""

    async def test(sender, receiver):
        polling = asyncio.ensure_future(receiver.poll(None))
        receiving = asyncio.ensure_future(receiver.recv())
        await sender.send(b"1")
        assert await receiving == b"1"
        await sender.send(b"2")
        assert await polling == zmq.POLLIN
        assert await receiver.recv() == b"2"

    run(test)
