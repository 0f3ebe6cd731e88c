"""Timeouts that callers pass: NaN is refused wherever a thread could wait for it."""

import asyncio
import math
import threading
from datetime import timedelta

import pytest

import mq as zmq
import mq.asyncio
from mq.devices import ThreadDevice
from mq.timeouts import check_timeout

NO_NUMBERS = [timedelta(seconds=1), "1"]


@pytest.fixture
def mailbox():
    mailbox = zmq.Mailbox()
    yield mailbox
    mailbox.close()


@pytest.mark.parametrize("timeout", [None, -1, 0, 0.5, math.inf, -math.inf, True])
def test_numbers_are_timeouts(timeout):
    """Any number but NaN, and None."""
    check_timeout(timeout)


@pytest.mark.parametrize("timeout", NO_NUMBERS)
def test_nothing_else_is(timeout):
    """No timedelta either: pyzmq takes none."""
    with pytest.raises(TypeError):
        check_timeout(timeout)


@pytest.mark.parametrize("call", [zmq.Mailbox.recv, zmq.Mailbox.head])
def test_of_a_mailbox(mailbox, call):
    """When there is no command: a wait until NaN never ended."""
    with pytest.raises(ValueError, match="timeout is nan"):
        call(mailbox, math.nan)
    for timeout in NO_NUMBERS:
        with pytest.raises(TypeError):
            call(mailbox, timeout)
    assert not mailbox.waiting


def test_of_a_signaler():
    """With a signal and without."""
    signaler = zmq.Signaler()
    for _ in range(2):
        with pytest.raises(ValueError, match="timeout is nan"):
            signaler.wait(math.nan)
        signaler.send()
    signaler.close()


def test_of_a_tracker():
    """A tracker that is done refuses it too."""
    for tracker in (zmq.MessageTracker(), zmq.MessageTracker(threading.Event())):
        with pytest.raises(ValueError, match="timeout is nan"):
            tracker.wait(math.nan)


def test_of_polls(ctx):
    """Sockets, pollers and `select`, blocking or in an event loop."""
    socket = ctx.socket(zmq.PULL)
    for poll in (socket.poll, zmq.Poller().poll, lambda nan: zmq.select([socket], [], [], nan)):
        with pytest.raises(ValueError, match="NaN"):
            poll(math.nan)

    async def poll_in_a_loop():
        with pytest.raises(ValueError, match="timeout is nan"):
            mq.asyncio.Poller().poll(math.nan)
        own = mq.asyncio.Socket(ctx, zmq.PULL)
        with pytest.raises(ValueError, match="timeout is nan"):
            own.poll(math.nan)
        own.close()

    asyncio.run(poll_in_a_loop())
    socket.close()


def test_of_a_device():
    """Its thread need not run."""
    with pytest.raises(ValueError, match="timeout is nan"):
        ThreadDevice(zmq.QUEUE, zmq.PULL, zmq.PUSH).join(math.nan)
