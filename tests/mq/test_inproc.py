"""Connecting within a process: either order, many at once, and the races between the two."""

import threading
from functools import partial

import pytest

import mq
from tests.mq.util import drain, in_threads


@pytest.mark.parametrize("bind_first", [True, False])
def test_either_order_delivers(socket, bind_first):
    """A connection made before its bind works like one made after."""
    bound, connecting = socket(mq.PAIR), socket(mq.PAIR)
    steps = [partial(bound.bind, "inproc://a"), partial(connecting.connect, "inproc://a")]
    for step in steps if bind_first else reversed(steps):
        step()
    bound.send(b"down")
    connecting.send(b"up")
    assert (bound.recv(), connecting.recv()) == (b"up", b"down")


def test_publisher_connected_before_its_subscriber_is_bound(socket):
    """What is published before the bind is dropped, what comes after is delivered."""
    publisher, subscriber = socket(mq.PUB), socket(mq.SUB)
    publisher.connect("inproc://a")
    publisher.send(b"before")
    subscriber.subscribe(b"")
    subscriber.bind("inproc://a")
    publisher.send(b"after")
    assert subscriber.recv() == b"after"


def test_many_connections_wait_for_one_bind(socket):
    """All connections that waited for an address are made when it is bound."""
    for number in range(10):
        push = socket(mq.PUSH)
        push.connect("inproc://a")
        push.send(b"%d" % number)
    pull = socket(mq.PULL)
    pull.bind("inproc://a")
    assert sorted(pull.recv() for _ in range(10)) == [b"%d" % n for n in range(10)]


def test_messages_of_closed_sockets_wait_for_the_bind(socket):
    """30 threads connect, send and close before anybody binds: 30 messages arrive."""

    def run():
        push = socket(mq.PUSH)
        push.connect("inproc://a")
        push.send(b"foobar")
        push.close()

    in_threads(*[run] * 30)
    pull = socket(mq.PULL)
    pull.bind("inproc://a")
    assert [pull.recv() for _ in range(30)] == [b"foobar"] * 30


@pytest.mark.parametrize("seed", range(3))
def test_bind_and_connect_at_the_same_time(socket, seed):
    """Connect races bind: neither a message nor the connection is lost, whoever comes first."""
    for number in range(50):
        bound, connecting = socket(mq.PAIR), socket(mq.PAIR)
        address = f"inproc://race-{seed}-{number}"
        in_threads(partial(bound.bind, address), partial(connecting.connect, address))
        bound.send(b"down")
        connecting.send(b"up")
        assert (bound.recv(), connecting.recv()) == (b"up", b"down")
        bound.close()
        connecting.close()


def test_closing_races_the_bind(socket):
    """A socket closed while its address is being bound: its message arrives, and all ends well."""
    for number in range(50):
        push, pull = socket(mq.PUSH), socket(mq.PULL)
        address = f"inproc://closing-{number}"
        push.connect(address)
        push.send(b"kept")
        in_threads(push.close, partial(pull.bind, address))
        assert pull.recv() == b"kept"
        pull.close()


def test_term_with_connections_never_bound(context):
    """Connections that nobody ever binds do not keep term waiting."""
    for _ in range(20):
        router = context.socket(mq.ROUTER)
        router.connect("inproc://never")
        router.close()
    context.term()


def test_term_with_unsent_messages_of_a_closed_socket(context):
    """Nor do the messages in them, which are lost then."""
    push = context.socket(mq.PUSH)
    push.connect("inproc://never")
    push.send(b"lost")
    push.close()
    context.term()


def test_shutdown_while_pending(context):
    """Term while a connection waits, its socket still open: the close lets it return."""
    push = context.socket(mq.PUSH)
    push.connect("inproc://never")
    thread = threading.Thread(target=context.term)
    thread.start()
    push.close()
    thread.join(30)
    assert not thread.is_alive()


def test_disconnect_removes_a_pending_connection(socket):
    """A connection withdrawn before the bind is not made, and its messages are gone."""
    push, pull = socket(mq.PUSH), socket(mq.PULL)
    push.connect("inproc://a")
    push.send(b"lost")
    push.disconnect("inproc://a")
    pull.bind("inproc://a")
    assert drain(pull) == []
    with pytest.raises(mq.Again):
        push.send(b"nowhere", mq.DONTWAIT)


def test_unbind_keeps_connections_and_frees_the_address(socket):
    """After unbind another socket can bind; those connected before stay with the first."""
    first, second = socket(mq.PULL), socket(mq.PULL)
    one, two = socket(mq.PUSH), socket(mq.PUSH)
    first.bind("inproc://a")
    one.connect("inproc://a")
    first.unbind("inproc://a")
    second.bind("inproc://a")
    two.connect("inproc://a")
    one.send(b"one")
    two.send(b"two")
    assert (first.recv(), second.recv()) == (b"one", b"two")


def test_two_connects_are_two_pipes(socket):
    """A socket may connect to an address twice, and then counts twice."""
    pull, push = socket(mq.PULL, rcvhwm=1), socket(mq.PUSH, sndhwm=1)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    push.connect("inproc://a")
    for _ in range(4):
        push.send(b"x", mq.DONTWAIT)
    with pytest.raises(mq.Again):
        push.send(b"x", mq.DONTWAIT)


@pytest.mark.parametrize(
    ("method", "address", "errno"),
    [
        ("bind", "inproc://taken", mq.EADDRINUSE),
        ("bind", "foo", mq.EINVAL),
        ("bind", "tcp://", mq.EINVAL),
        ("bind", "inproc://", mq.EINVAL),
        ("bind", "tcp://127.0.0.1:5555", mq.EPROTONOSUPPORT),
        ("connect", "ftl://a", mq.EPROTONOSUPPORT),
        ("unbind", "inproc://unknown", 2),
        ("disconnect", "inproc://unknown", 2),
    ],
)
def test_bad_addresses(socket, method, address, errno):
    """Every kind of bad address has its error number, and is named in the message."""
    socket(mq.PULL).bind("inproc://taken")
    with pytest.raises(mq.ZMQError) as raised:
        getattr(socket(mq.PULL), method)(address)
    assert raised.value.errno == errno
    assert address in str(raised.value)


def test_disconnect_in_the_middle_of_a_message(pair):
    """A reader that disconnects half way through a message goes on with the next one."""
    bound, pull = pair(mq.PUSH, mq.PULL)
    other = pair(mq.PUSH, mq.PULL)[0]
    bound.send_multipart([b"1", b"2", b"3"])
    assert pull.recv() == b"1"
    pull.disconnect("inproc://pair-0")
    other.bind("inproc://other")
    pull.connect("inproc://other")
    for _ in range(2):
        other.send_multipart([b"whole", b"message"])
    assert pull.recv_multipart() == [b"whole", b"message"]


def test_writer_disconnects_in_the_middle_of_a_message(pair, socket):
    """A writer that disconnects half way forgets the rest; the next message is whole."""
    pull, push = pair(mq.PULL, mq.PUSH)
    push.send(b"half", mq.SNDMORE)
    push.disconnect("inproc://pair-0")
    push.connect("inproc://pair-0")
    push.send(b"rest")
    push.send_multipart([b"whole", b"message"])
    assert pull.recv_multipart() == [b"whole", b"message"]
