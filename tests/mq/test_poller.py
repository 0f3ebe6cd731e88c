"""Poller, select, and the edge-triggered descriptor."""

import os
import select
import threading

import pytest

import mq


def readable(socket):
    """Whether the system sees the descriptor as readable."""
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def test_the_descriptor_is_edge_triggered(pair):
    """Readable; its events read, it is silent, even if a second message comes unread."""
    pull, push = pair(mq.PULL, mq.PUSH)
    pull.get(mq.EVENTS)
    push.send(b"1")
    assert readable(pull)
    assert pull.get(mq.EVENTS) == mq.POLLIN
    push.send(b"2")
    assert not readable(pull)
    assert [pull.recv(), pull.recv()] == [b"1", b"2"]


def test_registering(pair):
    """Registered again, flags are replaced; 0 forgets; unknown is KeyError."""
    pull, push = pair(mq.PULL, mq.PUSH)
    poller = mq.Poller()
    poller.register(push, mq.POLLIN)
    poller.register(push, mq.POLLOUT)
    poller.register(pull)
    assert poller.poll(0) == [(push, mq.POLLOUT)]
    poller.register(push, 0)
    assert push not in poller
    with pytest.raises(KeyError):
        poller.unregister(push)
    assert poller.poll(0) == []


def test_sockets_and_descriptors_together(pair):
    """A descriptor is told apart by its number, and its events are ZeroMQ's."""
    pull, push = pair(mq.PULL, mq.PUSH)
    reading, writing = os.pipe()
    poller = mq.Poller()
    poller.register(pull, mq.POLLIN)
    poller.register(reading, mq.POLLIN)
    poller.register(writing, mq.POLLOUT)
    assert poller.poll(0) == [(writing, mq.POLLOUT)]
    os.write(writing, b"x")
    push.send(b"x")
    assert dict(poller.poll(0)) == {pull: 1, reading: 1, writing: 2}
    os.close(reading)
    os.close(writing)


def test_a_poller_is_woken(pair):
    """A poll that waits for ever returns with the first message."""
    pull, push = pair(mq.PULL, mq.PUSH)
    poller = mq.Poller()
    poller.register(pull, mq.POLLIN)
    thread = threading.Thread(target=push.send, args=(b"x",))
    thread.start()
    assert poller.poll() == [(pull, mq.POLLIN)]
    thread.join()


def test_closed_sockets(pair):
    """Polling a closed socket is ENOTSOCK."""
    pull, _ = pair(mq.PULL, mq.PUSH)
    poller = mq.Poller()
    poller.register(pull)
    pull.close()
    with pytest.raises(mq.ZMQError) as raised:
        poller.poll(0)
    assert raised.value.errno == mq.ENOTSOCK


def test_select(pair):
    """Select answers in three lists."""
    pull, push = pair(mq.PULL, mq.PUSH)
    push.send(b"x")
    assert mq.select([pull, push], [pull, push], [], 0) == ([pull], [push], [])
