"""Connecting and binding in either order, and what becomes of connections never bound."""

import errno
import gc
import threading

import pytest

import mq as zmq
from mq.core.endpoints import inproc_name
from mq.pipes.pipe import PipeState

URL = "inproc://name"


def test_bind_before_connect(socket):
    """A connection to a bound name delivers."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"foobar")
    assert pull.recv() == b"foobar"


def test_connect_before_bind(socket):
    """A connection made first delivers what was sent before the bind, in order."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    push.connect(URL)
    push.send(b"one")
    push.send(b"two")
    pull.bind(URL)
    assert [pull.recv(), pull.recv()] == [b"one", b"two"]


def test_publisher_before_its_subscriber_binds(socket):
    """A PUB that connects first has no subscriber yet: what it sends before the bind is dropped,
    what it says after arrives.
    """
    pub, sub = socket(zmq.PUB), socket(zmq.SUB)
    pub.connect(URL)
    pub.send(b"before")
    sub.subscribe(b"")
    sub.bind(URL)
    pub.send(b"after")
    assert sub.recv() == b"after"


def test_ten_connect_before_bind(socket):
    """Ten wait for the bind; their messages all arrive."""
    for n in range(10):
        push = socket(zmq.PUSH)
        push.connect(URL)
        push.send(b"%d" % n)
    pull = socket(zmq.PULL)
    pull.bind(URL)
    assert sorted(pull.recv() for _ in range(10)) == [b"%d" % n for n in range(10)]


def test_thirty_threads_connect_send_and_close(ctx, socket, threads):
    """Sockets that connect, send and close before there is a bind: nothing of it is lost."""

    def work():
        with ctx.socket(zmq.PUSH) as push:
            push.connect(URL)
            push.send(b"x")

    for _ in range(30):
        threads.start(work)
    pull = socket(zmq.PULL)
    pull.bind(URL)
    assert [pull.recv() for _ in range(30)] == [b"x"] * 30


def test_simultaneous_connect_and_bind(ctx, threads):
    """Fifty times a bind and a connect at the same moment: the connection always comes about."""
    for n in range(50):
        url = f"inproc://race-{n}"
        start = threading.Barrier(2)

        def binder(url=url, start=start):
            with ctx.socket(zmq.PULL) as pull:
                pull.rcvtimeo = 10_000
                start.wait()
                pull.bind(url)
                assert pull.recv() == b"foobar"

        def connecter(url=url, start=start):
            with ctx.socket(zmq.PUSH) as push:
                start.wait()
                push.connect(url)
                push.send(b"foobar")

        threads.start(binder)
        threads.start(connecter)
        threads.join()


def test_identities_with_either_order(socket):
    """A ROUTER learns the routing id of its peer, whichever of them came first."""
    for first_binds in (True, False):
        dealer, router = socket(zmq.DEALER, identity=b"me"), socket(zmq.ROUTER)
        url = f"inproc://id-{first_binds}"
        if first_binds:
            router.bind(url)
        dealer.connect(url)
        dealer.send(b"hi")
        if not first_binds:
            router.bind(url)
        assert router.recv_multipart() == [b"me", b"hi"]
        router.send_multipart([b"me", b"back"])
        assert dealer.recv() == b"back"


def test_router_that_connected_first_can_send_after_the_bind(socket):
    """A ROUTER waiting for its peer to bind knows that peer's routing id once it has."""
    router, dealer = socket(zmq.ROUTER, router_mandatory=1), socket(zmq.DEALER, identity=b"you")
    router.connect(URL)
    with pytest.raises(zmq.ZMQError) as caught:
        router.send_multipart([b"you", b"too early"])
    assert caught.value.errno == zmq.EHOSTUNREACH
    dealer.bind(URL)
    router.send_multipart([b"you", b"hello"])
    assert dealer.recv() == b"hello"


def test_twenty_routers_never_bound():
    """Sockets whose connections are never bound do not keep their context from ending."""
    ctx = zmq.Context()
    routers = [ctx.socket(zmq.ROUTER) for _ in range(20)]
    for router in routers:
        router.connect(URL)
    for router in routers:
        router.close()
    ctx.term()
    assert ctx.closed


def test_term_while_pending_is_closed_later(threads):
    """term drops what waits for a bind; a socket closed only afterwards still comes to its end."""
    ctx = zmq.Context()
    push = ctx.socket(zmq.PUSH)
    push.connect(URL)
    push.send(b"lost")
    threads.start(ctx.term)
    with pytest.raises(zmq.ContextTerminated):
        push.poll(None, zmq.POLLIN)
    push.close()
    threads.join()


def test_connect_beside_term(threads):
    """A connection that slips in between term's marks and its own end is dropped too."""
    for _ in range(20):
        ctx = zmq.Context()
        push = ctx.socket(zmq.PUSH)
        start = threading.Barrier(2)

        def connect(push=push, start=start):
            start.wait()
            for n in range(20):
                try:
                    push.connect(f"inproc://{n}")
                    push.send(b"x", zmq.DONTWAIT)
                except zmq.ContextTerminated:
                    break
            push.close()

        def term(ctx=ctx, start=start):
            start.wait()
            ctx.term()

        threads.start(connect)
        threads.start(term)
        threads.join()
        assert ctx.closed
        assert push.closed


def test_messages_of_a_closed_socket_survive_until_the_bind(socket):
    """Close keeps the pending connection and its messages; the socket's slot is free after that."""
    push = socket(zmq.PUSH)
    push.connect(URL)
    for n in range(5):
        push.send(b"%d" % n)
    push.close()
    pull = socket(zmq.PULL)
    pull.bind(URL)
    assert [pull.recv() for _ in range(5)] == [b"%d" % n for n in range(5)]
    with pytest.raises(zmq.Again):
        pull.recv(zmq.DONTWAIT)


def test_disconnect_removes_the_pending_connection(socket):
    """A pending connection that was disconnected is not made by a later bind."""
    push, pull = socket(zmq.PUSH, sndtimeo=0), socket(zmq.PULL)
    push.connect(URL)
    push.send(b"gone")
    push.disconnect(URL)
    pull.bind(URL)
    with pytest.raises(zmq.Again):
        pull.recv(zmq.DONTWAIT)
    with pytest.raises(zmq.Again):
        push.send(b"no peer")
    push.connect(URL)
    push.send(b"again")
    assert pull.recv() == b"again"


def test_disconnect_of_one_of_several_pending(socket):
    """Others that wait for the same name are not touched."""
    one, two, pull = socket(zmq.PUSH), socket(zmq.PUSH), socket(zmq.PULL)
    for push, data in ((one, b"1"), (two, b"2")):
        push.connect(URL)
        push.send(data)
    one.disconnect(URL)
    pull.bind(URL)
    assert pull.recv() == b"2"
    with pytest.raises(zmq.Again):
        pull.recv(zmq.DONTWAIT)


def test_unbind_keeps_connections_and_frees_the_name(socket):
    """After unbind the existing connection stays, and another socket may bind the name."""
    first, second, push = socket(zmq.PULL), socket(zmq.PULL), socket(zmq.PUSH)
    first.bind(URL)
    push.connect(URL)
    first.unbind(URL)
    push.send(b"still")
    assert first.recv() == b"still"
    second.bind(URL)
    other = socket(zmq.PUSH)
    other.connect(URL)
    other.send(b"new")
    assert second.recv() == b"new"


def test_unbind_of_a_connected_address_disconnects(socket):
    """As in pyzmq, where both calls end an endpoint, whichever it is. Once: then it is unknown."""
    for bound_first in (True, False):
        push, pull = socket(zmq.PUSH, sndtimeo=0), socket(zmq.PULL)
        if bound_first:
            pull.bind(URL)
        push.connect(URL)
        push.unbind(URL)
        with pytest.raises(zmq.Again):
            push.send(b"no peer")
        with pytest.raises(zmq.ZMQError) as caught:
            push.unbind(URL)
        assert caught.value.errno == errno.ENOENT


def test_disconnect_of_a_bound_address_unbinds(socket):
    """Its connections stay, another socket may bind the name, and then it is unknown."""
    first, second, push = socket(zmq.PULL), socket(zmq.PULL), socket(zmq.PUSH)
    first.bind(URL)
    push.connect(URL)
    first.disconnect(URL)
    push.send(b"still")
    assert first.recv() == b"still"
    second.bind(URL)
    with pytest.raises(zmq.ZMQError) as caught:
        first.disconnect(URL)
    assert caught.value.errno == errno.ENOENT


@pytest.mark.parametrize("end", ["disconnect", "unbind"])
def test_disconnect_ends_all_connections_to_a_name(socket, end):
    """After two connects the second call finds none."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    push.connect(URL)
    getattr(push, end)(URL)
    with pytest.raises(zmq.ZMQError) as caught:
        getattr(push, end)(URL)
    assert caught.value.errno == errno.ENOENT


def test_of_a_socket_connected_to_itself_each_call_ends_its_own(socket):
    """`disconnect` ends the connection and leaves the name."""
    pair, other = socket(zmq.DEALER), socket(zmq.DEALER)
    pair.bind(URL)
    pair.connect(URL)
    pair.disconnect(URL)
    other.connect(URL)
    other.send(b"x")
    assert pair.recv() == b"x"
    pair.unbind(URL)


def test_close_frees_the_name(ctx, socket):
    """A name is free again soon after its socket was closed; its peers do not reconnect."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH, sndtimeo=0)
    pull.bind(URL)
    push.connect(URL)
    pull.close()
    while len(ctx._core.slots) > 1:
        push.get(zmq.EVENTS)  # its part of the handshake
    second = socket(zmq.PULL)
    second.bind(URL)
    with pytest.raises(zmq.Again):
        push.send(b"x")


@pytest.mark.parametrize(
    ("call", "address", "number"),
    [
        ("bind", "foo", errno.EINVAL),
        ("bind", "tcp://", errno.EINVAL),
        ("bind", "inproc://", errno.EINVAL),
        ("connect", "inproc:/x", errno.EINVAL),
        ("bind", "tcp://127.0.0.1:5555", errno.EPROTONOSUPPORT),
        ("connect", "ipc://somewhere", errno.EPROTONOSUPPORT),
        ("unbind", URL, errno.ENOENT),
        ("disconnect", URL, errno.ENOENT),
    ],
)
def test_addresses_that_are_refused(socket, call, address, number):
    """Bad addresses, other transports, and names that are not ours have errors of their own."""
    with pytest.raises(zmq.ZMQError) as caught:
        getattr(socket(zmq.PUSH), call)(address)
    assert caught.value.errno == number


def test_a_name_is_bound_once(socket):
    """A second bind of the same name is EADDRINUSE, by the same socket too."""
    one, two = socket(zmq.PULL), socket(zmq.PULL)
    one.bind(URL)
    for taker in (one, two):
        with pytest.raises(zmq.ZMQError) as caught:
            taker.bind(URL)
        assert caught.value.errno == zmq.EADDRINUSE


def test_connecting_twice_makes_two_pipes(socket):
    """Each connect is a connection of its own; one disconnect ends both."""
    pull, push = socket(zmq.PULL), socket(zmq.PUSH, sndtimeo=0)
    pull.bind(URL)
    push.connect(URL)
    push.connect(URL)
    assert len(push._core._pipes) == 2
    push.disconnect(URL)
    with pytest.raises(zmq.Again):
        push.send(b"x")


def test_contexts_are_apart(ctx):
    """A name belongs to one context."""
    other = zmq.Context()
    with (
        ctx.socket(zmq.PULL) as one,
        other.socket(zmq.PULL) as two,
        other.socket(zmq.PUSH) as push,
    ):
        one.bind(URL)
        two.bind(URL)
        push.connect(URL)
        push.send(b"x")
        assert two.recv() == b"x"
        assert one.poll(0) == 0
    other.term()


def test_bind_owns_the_pipe_before_it_is_announced(socket):
    """The end given to a binder is complete - owner, marks, id - before its owner hears of it."""
    push, pull = socket(zmq.PUSH, identity=b"id", sndhwm=2), socket(zmq.PULL, rcvhwm=3)
    push.connect(URL)
    # Not by pull.bind, which would process the command.
    pull._core.ctx.endpoints.bind(inproc_name(URL), pull._core)
    command = pull._core.mailbox.recv(0)
    pipe = command.pipe
    assert pipe.mailbox is pull._core.mailbox
    assert pipe.routing_id == b"id"
    assert (pipe._lwm, pipe.state) == (3, PipeState.ACTIVE)
    command.deliver()


def test_closed_sockets_leave_nothing_behind(ctx):
    """Slots, mailboxes and descriptors of closed sockets are given back."""
    slots = ctx._core.slots
    for _ in range(3):
        with ctx.socket(zmq.PULL) as pull, ctx.socket(zmq.PUSH) as push:
            pull.bind(URL)
            push.connect(URL)
            push.send(b"x")
            pull.recv()
        while slots.wait_for_slot():
            pass
        assert not len(slots)
    gc.collect()
    assert not ctx._core.endpoints._bound
    assert not ctx._core.endpoints._pending
