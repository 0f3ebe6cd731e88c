"""ContextCore: its options, and the slots of its sockets."""

import errno
import os

import pytest

import mq as zmq
from mq.core import context_core

URL = "inproc://context"


def test_a_closed_sender_keeps_its_slot_until_it_was_read(ctx, socket):
    """The slot of a closed socket is free when the peer has read its last message."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"x")
    push.close()
    assert pull.recv() == b"x"
    while len(ctx._core.slots) > 1:
        assert pull.poll(0) == 0


def test_max_sockets(ctx, socket):
    """With MAX_SOCKETS open the next is EMFILE; one closed makes room."""
    ctx.set(zmq.MAX_SOCKETS, 2)
    first = socket(zmq.PULL)
    socket(zmq.PULL)
    with pytest.raises(zmq.ZMQError) as caught:
        socket(zmq.PULL)
    assert caught.value.strerror == os.strerror(24)
    first.close()
    socket(zmq.PULL)  # at once: what was closed is waited for


def test_a_closed_socket_that_does_not_end_makes_no_room(ctx, socket, monkeypatch):
    """EMFILE while a closed socket keeps its slot because its messages are unread."""
    monkeypatch.setattr(context_core, "SLOT_WAIT_S", 0.01)
    ctx.set(zmq.MAX_SOCKETS, 2)
    pull, push = socket(zmq.PULL), socket(zmq.PUSH)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    push.send(b"unread")
    push.close()
    with pytest.raises(zmq.ZMQError) as caught:
        socket(zmq.PULL)
    assert caught.value.errno == errno.EMFILE
    assert pull.recv() == b"unread"


def test_options():
    """Options are read back; unknown ones and bad values are EINVAL."""
    ctx = zmq.Context()
    assert ctx.get(zmq.IO_THREADS) == 1
    assert ctx.get(zmq.SOCKET_LIMIT) == 65535
    for call in (lambda: ctx.get(-1), lambda: ctx.set(-1, 0), lambda: ctx.set(zmq.MAX_SOCKETS, 0)):
        with pytest.raises(zmq.ZMQError) as caught:
            call()
        assert caught.value.errno == zmq.EINVAL
    ctx.term()


def test_blocky_decides_the_default_linger():
    """LINGER is -1, and 0 in a context that is not BLOCKY, and for SUB."""
    ctx = zmq.Context()
    with ctx.socket(zmq.PUSH) as push, ctx.socket(zmq.SUB) as sub:
        assert (push.linger, sub.linger) == (-1, 0)
    ctx.set(zmq.BLOCKY, 0)
    with ctx.socket(zmq.PUSH) as push:
        assert push.linger == 0
    ctx.term()
