"""Options of sockets, as attributes and by number; the front door and its import."""

import subprocess
import sys

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


def test_attributes(socket):
    """Options are attributes in any case; there are no others; write-only ones cannot be read."""
    dealer = socket(zmq.DEALER)
    dealer.linger = 10
    assert dealer.LINGER == dealer.get(zmq.LINGER) == 10
    dealer.hwm = 5
    assert (dealer.sndhwm, dealer.rcvhwm, dealer.get_hwm()) == (5, 5, 5)
    for access in (lambda: dealer.apple, lambda: setattr(dealer, "apple", 1)):
        with pytest.raises(AttributeError):
            access()
    with pytest.raises(AttributeError, match="write-only"):
        _ = dealer.req_relaxed


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


def test_everything_exported_is_there():
    """All names of __all__ exist, and the errors have one base."""
    for name in zmq.__all__:
        assert hasattr(zmq, name)
    for error in (zmq.ZMQError, zmq.MailboxClosed, zmq.NotDone, zmq.ZMQBindError):
        assert issubclass(error, zmq.ZMQBaseError)
    assert str(zmq.Again()) == zmq.strerror(zmq.EAGAIN)
    assert str(zmq.ContextTerminated()) == "Context was terminated"


def test_the_import_is_slim():
    """`import mq` takes the standard library only, and neither asyncio, json, pickle nor inspect
    beyond what dataclasses need themselves.
    """
    code = """
import sys
import dataclasses, enum, select, threading, weakref
before = set(sys.modules)
import mq
new = {m.partition(".")[0] for m in set(sys.modules) - before}
new -= {"mq", "_purgatory_cpython", "timer_purgatory__mypyc"}
assert new <= set(sys.stdlib_module_names), new
assert not {"asyncio", "json", "pickle", "logging", "random", "socket"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
