"""Options of sockets, as attributes and by number; the front door and its import."""

import sys

import pytest

import mq as zmq

INTEGERS = [
    *(sign * 2**bits + off for bits in (31, 32, 63, 70) for sign in (1, -1) for off in (-1, 0)),
    *range(-101, -97),
    *range(-3, 6),
    *(99, 100, 255, 256, 65535, 6553599, 6553600),
]
#: Of each kind; bytes of many lengths.
ODD_VALUES = [
    *INTEGERS,
    *(b"x" * length for length in (1000, 256, 255, 41, 40, 33, 32, 17, 16, 2, 0, 1)),
    *(True, False, 1.0, None, "x", bytearray(b"x"), [1]),
]
SOCKET_TYPES = ["PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH"]
SOCKET_TYPES += ["XPUB", "XSUB"]
#: Known to the socket itself: its state, and of this machine.
OWN = ("FD", "EVENTS", "LAST_ENDPOINT")


def result(call, error):
    """Return what a call returns, or the type and number of what it raises."""
    try:
        return call()
    except error as raised:
        return "ZMQError", raised.errno
    except (TypeError, OverflowError) as raised:
        return type(raised).__name__


def results(module, make, options):
    """Set each option to each odd value, and read it back where that is at most 255 bytes."""
    with make(module) as thing:
        found = {}
        for name in options:
            option = int(getattr(module, name))
            for value in ODD_VALUES:
                was = result(lambda: thing.set(option, value), module.ZMQError)  # noqa: B023
                found[name, repr(value)] = was
                if name not in OWN and not (isinstance(value, bytes) and len(value) > 200):
                    read = result(lambda: thing.get(option), module.ZMQError)  # noqa: B023
                    found[name, repr(value), "read"] = read
    return found


@pytest.mark.parametrize("kind", SOCKET_TYPES)
def test_each_option_refuses_what_pyzmq_refuses(kind):
    """And takes what it takes, on each type of socket, and reads the same back."""
    pyzmq = pytest.importorskip("zmq")
    names = [name for name in pyzmq.SocketOption.__members__ if "CURVE" not in name]
    if pyzmq.has("curve"):
        names = list(pyzmq.SocketOption.__members__)
    with pyzmq.Context() as theirs, zmq.Context() as ours:
        contexts = {pyzmq: theirs, zmq: ours}

        def make(module):
            return contexts[module].socket(getattr(module, kind))

        assert results(zmq, make, names) == results(pyzmq, make, names)


def test_each_option_of_a_context_refuses_what_pyzmq_refuses():
    """And takes what it takes."""
    pyzmq = pytest.importorskip("zmq")
    names = [*pyzmq.ContextOption.__members__, "BLOCKY", "IPV6"]
    theirs = results(pyzmq, lambda module: module.Context(), names)
    unreadable = "THREAD_NAME_PREFIX", "-1", "read"  # libzmq's mark of an option that it lacks
    ours = results(zmq, lambda module: module.Context(), names)
    assert ours | {unreadable: None} == theirs | {unreadable: None}
    for refused in (2**31, 2**63, -(2**31) - 1, 2**70):
        with pytest.raises(OverflowError):
            zmq.Context(refused)


@pytest.mark.parametrize("marks", [sys.maxsize, 2**62, 2**31])
def test_marks_beyond_pyzmq_do_not_reach_a_connection(pair, marks):
    """The reaper would have died of the sum of two of them, and `term` would have waited for it."""
    push, pull = pair(zmq.PUSH, zmq.PULL)
    for socket in (push, pull):
        with pytest.raises(OverflowError, match="expected an int of 32 bits"):
            socket.set_hwm(marks)
        socket.set_hwm(2**31 - 1)
    push.send(b"x")
    assert pull.recv() == b"x"


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
