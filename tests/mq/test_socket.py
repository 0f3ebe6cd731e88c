"""The socket's handle: what it knows of itself, shadows, subclasses."""

import pytest

import mq
import mq as zmq


def test_strings(socket):
    """Bytes options can be set and read as strings."""
    dealer = socket(zmq.DEALER)
    dealer.set_string(zmq.IDENTITY, "né", "utf-16")
    assert dealer.get_string(zmq.IDENTITY, "utf-16") == "né"
    with pytest.raises(TypeError):
        dealer.get_string(zmq.LINGER)


def test_known_facts(socket):
    """Type, last endpoint and the rest of what a socket knows of itself."""
    pull = socket(zmq.PULL)
    assert pull.type == zmq.PULL
    assert pull.last_endpoint == b""
    pull.bind("inproc://known")
    assert pull.last_endpoint == b"inproc://known"
    assert pull.get(zmq.RCVMORE) == 0
    assert pull.fileno() == pull.fd


def test_what_a_disconnect_loses(socket):
    """What this socket has not read, and what it sent before a bind; no other message."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    push.connect("inproc://a")
    push.send(b"before the bind")
    push.disconnect("inproc://a")
    pull.bind("inproc://a")
    push.connect("inproc://a")
    push.send(b"sent")
    push.disconnect("inproc://a")
    assert pull.recv() == b"sent"
    push.bind("inproc://b")
    pull.connect("inproc://b")
    push.send(b"unread")
    pull.disconnect("inproc://b")
    with pytest.raises(zmq.Again):
        pull.recv(zmq.DONTWAIT)
    text = "Messages unread by this socket, or sent before a bind, are lost."
    assert text in zmq.Socket.disconnect.__doc__


def test_types_that_need_a_network_are_refused(ctx):
    """STREAM and unknown types are EINVAL."""
    for socket_type in (zmq.STREAM, 99):
        with pytest.raises(zmq.ZMQError) as caught:
            ctx.socket(socket_type)
        assert caught.value.errno == zmq.EINVAL


def test_shadows(ctx, socket):
    """A shadow is another handle for the same socket, and does not end it."""
    pull = socket(zmq.PULL)
    shadow = zmq.Socket.shadow(pull.underlying)
    del shadow
    assert not pull.closed
    other = zmq.Socket(pull)
    assert other.underlying == pull.underlying
    pull.close()
    assert other.closed
    with pytest.raises(zmq.ZMQError):
        zmq.Socket.shadow(12345)


def test_sockets_can_be_subclassed(ctx):
    """What a program's socket overrides is what multipart messages go through."""

    class Counting(mq.Socket):
        sent: int = 0

        def send(self, data, *args, **kwargs):
            self.sent += 1
            return super().send(data, *args, **kwargs)

        def recv(self, *args, **kwargs):
            return super().recv(*args, **kwargs) + b"!"

    one, two = (ctx.socket(mq.PAIR, socket_class=Counting) for _ in range(2))
    one.bind("inproc://a")
    two.connect("inproc://a")
    one.send_multipart([b"x", b"y"])
    assert two.recv_multipart() == [b"x!", b"y!"]
    assert (one.sent, two.sent) == (2, 0)
    one.close()
    two.close()


@pytest.mark.parametrize("bad", [1.5, "1", 2**40])
def test_a_bad_linger_changes_nothing(bad):
    """Compiled as interpreted; of a socket that is closed, and of a context with or without any."""
    ctx = zmq.Context()
    empty = zmq.Context()
    one, two = ctx.socket(zmq.PAIR), ctx.socket(zmq.PAIR)
    for call in (one.close, ctx.destroy, empty.destroy):
        with pytest.raises((TypeError, OverflowError)):
            call(linger=bad)
    assert not any(thing.closed for thing in (one, two, ctx, empty))
    assert one.linger == -1
    one.close()
    two.close()
    with pytest.raises((TypeError, OverflowError)):
        one.close(linger=bad)
    ctx.term()
    empty.term()


def test_any_int_closes(ctx):
    """Also one that the option refuses, as in pyzmq."""
    one, two = ctx.socket(zmq.PAIR), ctx.socket(zmq.PAIR)
    one.close(linger=-5)
    ctx.destroy(linger=-5)
    assert one.closed
    assert two.closed
    assert ctx.closed


def test_a_name_of_any_bytes(socket):
    """As in ZeroMQ, where an inproc name is bytes."""
    one, two = socket(zmq.PAIR), socket(zmq.PAIR)
    one.bind(b"inproc://\xff")
    two.connect(b"inproc://\xff")
    assert one.last_endpoint == b"inproc://\xff"
    two.send(b"x")
    assert one.recv() == b"x"
    two.disconnect(b"inproc://\xff")
    one.unbind(b"inproc://\xff")
