"""Sockets whose operations return futures."""

import asyncio
import os
import threading

import pytest

import mq as zmq
import mq.asyncio as amq


def test_receive_waits_for_a_send(run_in_loop):
    """Receives that came first get the messages, in turn."""

    async def test(a, b):
        waiting = [b.recv(), b.recv_multipart()]
        await asyncio.sleep(0)
        assert not any(future.done() for future in waiting)
        await a.send(b"1")
        await a.send_multipart([b"2", b"3"])
        assert await asyncio.gather(*waiting) == [b"1", [b"2", b"3"]]

    run_in_loop(test)


def test_a_thread_sends(run_in_loop):
    """A message from another thread wakes the loop."""

    async def test(a, b):
        future = b.recv_string()
        blocking = zmq.Socket(a)
        thread = threading.Thread(target=blocking.send_string, args=("hello",))
        thread.start()
        assert await future == "hello"
        thread.join()

    run_in_loop(test)


def test_many_messages_one_edge(run_in_loop):
    """All messages are received although the descriptor signals only the first."""

    async def test(a, b):
        for n in range(500):
            await a.send_json(n)
        assert [await b.recv_json() for _ in range(500)] == list(range(500))

    run_in_loop(test)


def test_send_waits_for_room(run_in_loop):
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

    run_in_loop(test)


def test_request_and_reply_at_once(run_in_loop):
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

    run_in_loop(test, zmq.REQ, zmq.REP)


def test_cancelled_receives_take_nothing(run_in_loop):
    """A message goes to the next receive that is still wanted."""

    async def test(a, b):
        first, second = b.recv(), b.recv()
        first.cancel()
        await a.send(b"x")
        assert await second == b"x"
        assert len(b._waiters.receiving) == 0

    run_in_loop(test)


def test_timeouts(run_in_loop):
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

    run_in_loop(test)


def test_poll(run_in_loop):
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
        while b._waiters.receiving:
            await asyncio.sleep(0)  # a turn of the loop, in which callbacks run

    run_in_loop(test)


def test_poller_takes_all_kinds(run_in_loop):
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

    run_in_loop(test)


def test_close_cancels(run_in_loop):
    """Operations that wait when their socket is closed are cancelled."""

    async def test(_, b):
        future = b.recv()
        b.close()
        with pytest.raises(asyncio.CancelledError):
            await future

    run_in_loop(test)


def test_a_close_that_is_refused_cancels_nothing(run_in_loop):
    """A bad linger leaves the socket open, and what waits waiting."""

    async def test(a, b):
        future = b.recv()
        with pytest.raises(TypeError):
            b.close(linger="0")
        await a.send(b"x")
        assert await future == b"x"

    run_in_loop(test)


@pytest.mark.usefixtures("collector_paused")
@pytest.mark.filterwarnings("ignore:Unclosed socket:ResourceWarning")
def test_a_dropped_socket_is_closed(asyncio_ctx):
    """At once, as a blocking one, and not only when the cycle collector runs: `term` waits."""

    async def body():
        socket = asyncio_ctx.socket(zmq.PULL)
        socket.bind("inproc://dropped")
        core = socket._core
        assert await socket.poll(1) == 0
        with asyncio_ctx.socket(zmq.PUSH) as push:
            push.connect("inproc://dropped")
            await push.send_json(1)
        assert await socket.recv_json() == 1
        del socket
        while not core.closed:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(body(), 30))
    asyncio_ctx.term()


@pytest.mark.usefixtures("collector_paused")
@pytest.mark.filterwarnings("ignore:Unclosed socket:ResourceWarning")
def test_an_operation_that_waits_keeps_its_socket(asyncio_ctx):
    """Until it is done."""

    async def receive():
        socket = asyncio_ctx.socket(zmq.PULL)
        socket.connect("inproc://kept")
        return socket._core, socket.recv()

    async def body():
        with asyncio_ctx.socket(zmq.PUSH) as push:
            push.bind("inproc://kept")
            core, future = await receive()
            await push.send(b"x")
            assert await future == b"x"
            while not core.closed:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(body(), 30))


def test_term_fails_what_waits(asyncio_ctx):
    """Futures that wait fail with ETERM when their context ends."""

    async def body():
        with asyncio_ctx.socket(zmq.PULL) as pull:
            future = pull.recv()
            thread = threading.Thread(target=asyncio_ctx._core.term)
            thread.start()
            with pytest.raises(zmq.ContextTerminated):
                await asyncio.wait_for(future, 30)
        thread.join()

    asyncio.run(body())


def test_one_socket_in_several_loops(asyncio_ctx):
    """A socket may be used in one loop after another."""
    with asyncio_ctx.socket(zmq.PUSH) as a, asyncio_ctx.socket(zmq.PULL) as b:
        b.bind("inproc://loops")
        a.connect("inproc://loops")

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


def test_a_poll_whose_message_another_operation_takes(run_in_loop):
    """It is told of the message; one that begins later is told of the next."""

    async def test(sender, receiver):
        polling = asyncio.ensure_future(receiver.poll(None))
        receiving = asyncio.ensure_future(receiver.recv())
        await sender.send(b"1")
        assert await asyncio.gather(polling, receiving) == [zmq.POLLIN, b"1"]
        polling = asyncio.ensure_future(receiver.poll(None))
        await sender.send(b"2")
        assert await polling == zmq.POLLIN
        assert await receiver.recv() == b"2"

    run_in_loop(test)


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("timeout", [0, 30_000, None])
def test_a_poll_of_a_closed_socket_is_refused(run_in_loop, blocking, timeout):
    """ENOTSOCK, as from a blocking poller; nothing is left behind in the loop."""

    async def test(a, b):
        poller = amq.Poller()
        poller.register(a)
        poller.register(zmq.Socket(b) if blocking else b)
        b.close()
        with pytest.raises(zmq.ZMQError) as error:
            await poller.poll(timeout)
        assert error.value.errno == zmq.ENOTSOCK
        while a._waiters.receiving or a._waiters.sending:
            await asyncio.sleep(0)

    run_in_loop(test)


async def _assert_each_is_told(make_poll, send):
    polls = [asyncio.ensure_future(make_poll()) for _ in range(3)]
    await asyncio.sleep(0)
    polls[1].cancel()
    await asyncio.wait([polls[1]])
    send()
    first, _, third = await asyncio.gather(*polls, return_exceptions=True)
    assert first == third
    assert len(first) == 1


def test_concurrent_polls_of_one_descriptor(run_in_loop):
    """Each is told, whichever ends first: neither replaces, nor removes, the other's reader."""

    async def test(_, __):
        r, w = os.pipe()
        os.set_blocking(r, False)
        read = []
        asyncio.get_running_loop().add_reader(r, lambda: read.append(os.read(r, 2)))
        poller = amq.Poller()
        poller.register(w, zmq.POLLOUT)
        await _assert_each_is_told(poller.poll, lambda: None)
        os.write(w, b"x")
        while not read:
            await asyncio.sleep(0)
        asyncio.get_running_loop().remove_reader(r)
        poller = amq.Poller()
        poller.register(r, zmq.POLLIN)
        await _assert_each_is_told(poller.poll, lambda: os.write(w, b"x"))
        os.close(r)
        os.close(w)

    run_in_loop(test)


def test_concurrent_polls_of_one_blocking_socket(run_in_loop):
    """Also beside an operation of an asyncio socket that is another handle for it."""

    async def test(a, b):
        poller = amq.Poller()
        poller.register(zmq.Socket(b), zmq.POLLIN)
        received = b.recv()
        await poller.poll(1)
        await a.send(b"x")
        assert await received == b"x"
        await _assert_each_is_told(poller.poll, lambda: zmq.Socket(a).send(b"y"))
        assert await b.recv() == b"y"

    run_in_loop(test)
