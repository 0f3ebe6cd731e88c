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


def test_a_bad_linger_leaves_the_socket_open(socket):
    """Compiled as interpreted."""
    one = socket(zmq.PAIR)
    for bad in (1.5, "1", 2**40):
        with pytest.raises((TypeError, OverflowError)):
            one.close(linger=bad)
        assert not one.closed
