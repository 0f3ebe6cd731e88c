"""Options of sockets, as attributes and by number; the front door and its import."""

import pytest

import mq as zmq


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (9999, 5),
        (zmq.EVENTS, 1),
        (zmq.SNDHWM, -1),
        (zmq.RCVHWM, -1),
        (zmq.LINGER, -2),
        (zmq.RCVTIMEO, -2),
        (zmq.SNDTIMEO, -2),
        (zmq.CONFLATE, 2),
        (zmq.ROUTING_ID, b""),
        (zmq.ROUTING_ID, b"x" * 256),
        (zmq.SUBSCRIBE, b"x"),
    ],
)
def test_refused_values(socket, option, value):
    """Unknown options, read-only ones and values out of range are EINVAL."""
    with pytest.raises(zmq.ZMQError) as caught:
        socket(zmq.DEALER).set(option, value)
    assert caught.value.errno == zmq.EINVAL


def test_types_are_checked_first(socket):
    """str is never taken, bytes and int only where they belong."""
    dealer = socket(zmq.DEALER)
    for option, value in ((zmq.ROUTING_ID, "x"), (zmq.ROUTING_ID, 5), (zmq.LINGER, b"5")):
        with pytest.raises(TypeError):
            dealer.set(option, value)


def test_context_defaults(ctx):
    """Options set on a context count for its later sockets, where they apply."""
    ctx.linger = 7
    ctx.setsockopt(zmq.SUBSCRIBE, b"")
    with ctx.socket(zmq.PULL) as pull:
        assert pull.linger == 7
    assert ctx.getsockopt(zmq.LINGER) == 7
    del ctx.linger
    with ctx.socket(zmq.PULL) as pull:
        assert pull.linger == -1
