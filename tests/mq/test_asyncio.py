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
        assert len(b._waiters.receiving) == 0

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
        while b._waiters.receiving:
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


def test_a_close_that_is_refused_cancels_nothing(run):
    """A bad linger leaves the socket open, and what waits waiting."""

    async def test(a, b):
        future = b.recv()
        with pytest.raises(zmq.ZMQError, match="Invalid"):
            b.close(linger=-5)
        await a.send(b"x")
        assert await future == b"x"

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


@pytest.mark.parametrize("leave", [amq.Socket.recv, amq.Socket.poll])
def test_an_operation_of_a_closed_loop_takes_nothing(ctx, leave):
    """Its future will never be done; the next message is for an operation of the present loop."""

    async def leave_waiting(socket):
        return leave(socket)

    async def body(a, b):
        future = b.recv()
        await a.send(b"x")
        assert await asyncio.wait_for(future, 30) == b"x"

    with ctx.socket(zmq.PUSH) as a, ctx.socket(zmq.PULL) as b:
        b.bind(URL)
        a.connect(URL)
        loop = asyncio.new_event_loop()
        future = loop.run_until_complete(leave_waiting(b))
        loop.close()
        asyncio.run(body(a, b))
        assert not future.done()


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("timeout", [0, 30_000, None])
def test_a_poll_of_a_closed_socket_is_refused(run, blocking, timeout):
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

    run(test)


async def _assert_each_is_told(make_poll, send):
    polls = [asyncio.ensure_future(make_poll()) for _ in range(3)]
    await asyncio.sleep(0)
    polls[1].cancel()
    await asyncio.wait([polls[1]])
    send()
    first, _, third = await asyncio.gather(*polls, return_exceptions=True)
    assert first == third
    assert len(first) == 1


def test_concurrent_polls_of_one_descriptor(run):
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

    run(test)


def test_concurrent_polls_of_one_blocking_socket(run):
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

    run(test)


def test_a_check_of_a_poll_leaves_no_other_operation_waiting(run):
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

    run(test)


def test_two_handles_wait_for_one_socket(run):
    """Each message goes to one of them, in the order of their calls."""

    async def test(a, b):
        other = amq.Socket(b)
        received = [b.recv(), other.recv(), b.recv(), other.recv()]
        for n in range(4):
            await a.send(b"%d" % n)
        assert await asyncio.gather(*received) == [b"0", b"1", b"2", b"3"]

    run(test)


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


def test_cancelled_polls_leave_nothing(run):
    """Looked at by the names that pyzmq's own tests use."""

    async def test(_, b):
        for _ in range(3):
            polling = asyncio.ensure_future(b.poll(1000))
            await asyncio.sleep(0)
            assert len(b._recv_futures) == 1
            polling.cancel()
            while b._recv_futures:  # the operation of a cancelled poll goes some turns later
                await asyncio.sleep(0)

    run(test)
