"""Poller, select, the descriptor, and timeouts."""

import os
import select
import threading
import time

import pytest

import mq as zmq

URL = "inproc://poll"


@pytest.fixture
def pair(socket):
    """A connected PUSH and PULL."""
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)
    return push, pull


def test_events_of_several_sockets(pair):
    """poll returns the sockets that are ready, and for which events."""
    push, pull = pair
    poller = zmq.Poller()
    poller.register(push)
    poller.register(pull)
    assert dict(poller.poll(0)) == {push: zmq.POLLOUT}
    push.send(b"x")
    assert dict(poller.poll(0)) == {push: zmq.POLLOUT, pull: zmq.POLLIN}


def test_what_is_neither_a_socket_nor_a_descriptor(ctx):
    """A TypeError when it is polled; a context is no socket."""
    for thing in (ctx, object(), "text", None):
        poller = zmq.Poller()
        poller.register(thing, zmq.POLLIN)
        with pytest.raises(TypeError):
            poller.poll(0)


def test_registering(pair):
    """Registering again modifies, flags 0 unregisters, and an unknown socket is a KeyError."""
    push, pull = pair
    poller = zmq.Poller()
    poller.register(push, zmq.POLLOUT)
    poller.register(push, zmq.POLLIN)
    assert poller.poll(0) == []
    poller.register(pull, zmq.POLLIN)
    assert push in poller
    poller.register(push, 0)
    assert push not in poller
    poller.modify(pull, zmq.POLLIN)
    poller.unregister(pull)
    with pytest.raises(KeyError):
        poller.unregister(pull)


def test_waits_for_a_message(pair, threads):
    """A poll for ever is woken by a message."""
    push, pull = pair
    threads.start(push.send, b"x")
    assert pull.poll(None) == zmq.POLLIN


def test_waits_for_room(socket, threads):
    """A poll for POLLOUT is woken by credit."""
    push, pull = socket(zmq.PUSH, sndhwm=1), socket(zmq.PULL, rcvhwm=1)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"1")
    push.send(b"2")
    assert push.poll(0, zmq.POLLOUT) == 0
    threads.start(pull.recv)
    assert push.poll(30_000, zmq.POLLOUT) == zmq.POLLOUT


def test_descriptors_and_sockets_together(pair):
    """A raw descriptor comes back as its number."""
    _, pull = pair
    r, w = os.pipe()
    poller = zmq.Poller()
    poller.register(r, zmq.POLLIN)
    poller.register(w, zmq.POLLOUT)
    poller.register(pull, zmq.POLLIN)
    assert dict(poller.poll(1000)) == {w: zmq.POLLOUT}
    os.write(w, b"x")
    assert dict(poller.poll(1000)) == {r: zmq.POLLIN, w: zmq.POLLOUT}
    os.close(w)
    os.close(r)


def test_events_come_in_the_order_registered(pair):
    """Of descriptors and sockets; a descriptor watched twice has a pair for each."""
    push, _ = pair
    r, w = os.pipe()
    watched = [(w, zmq.POLLOUT), (push, zmq.POLLOUT), (w, zmq.POLLIN | zmq.POLLOUT)]
    assert zmq.zmq_poll(watched, 0) == [(w, zmq.POLLOUT), (push, zmq.POLLOUT), (w, zmq.POLLOUT)]
    os.close(r)
    os.close(w)


def test_closed_sockets_are_refused(pair):
    """Polling a closed socket is ENOTSOCK."""
    _, pull = pair
    poller = zmq.Poller()
    poller.register(pull, zmq.POLLIN)
    pull.close()
    with pytest.raises(zmq.ZMQError) as caught:
        poller.poll(0)
    assert caught.value.errno == zmq.ENOTSOCK


def test_select(pair):
    """select sorts by kind of event."""
    push, pull = pair
    push.send(b"x")
    assert zmq.select([push, pull], [push, pull], [push], 1) == ([pull], [push], [])
    assert zmq.select([push], [], [], 0) == ([], [], [])


def test_the_descriptor_is_edge_triggered(pair):
    """Readable with the first message; once EVENTS was read it stays quiet, for a second message
    too, until all has been received.
    """
    push, pull = pair
    assert pull.events == 0

    def readable():
        return bool(select.select([pull.fd], [], [], 0)[0])

    push.send(b"1")
    assert readable()
    assert pull.events == zmq.POLLIN
    assert not readable()
    push.send(b"2")
    assert not readable()
    assert [pull.recv(), pull.recv()] == [b"1", b"2"]
    assert pull.events == 0
    push.send(b"3")
    assert readable()


def test_timeouts(socket):
    """RCVTIMEO and SNDTIMEO end a wait with Again, not before 250 ms are over."""
    dealer = socket(zmq.DEALER, rcvtimeo=250, sndtimeo=250)
    for call in (dealer.recv, lambda: dealer.send(b"x")):
        start = time.monotonic()
        with pytest.raises(zmq.Again):
            call()
        assert 0.249 <= time.monotonic() - start < 30


def test_commands_do_not_end_a_wait_early(pair, socket):
    """A receiver woken without a message keeps waiting until its timeout."""
    _, pull = pair
    pull.rcvtimeo = 300
    over = threading.Event()

    def disturb():
        while not over.is_set():
            other = pull.context.socket(zmq.PUSH)
            other.connect(URL)
            other.close()
            while not other._core.destroyed and not over.is_set():
                pass  # the receiver has its part in that

    disturber = threading.Thread(target=disturb)
    disturber.start()
    start = time.monotonic()
    with pytest.raises(zmq.Again):
        pull.recv()
    assert time.monotonic() - start >= 0.299
    over.set()
    disturber.join()


def test_no_again_when_room_has_been_made(socket):
    """Once the credit was sent, a send that does not wait succeeds: never a spurious Again."""
    push, pull = socket(zmq.PUSH, sndhwm=1), socket(zmq.PULL, rcvhwm=1)
    pull.bind(URL)
    push.connect(URL)
    push.send(b"x")
    push.send(b"x")
    for _ in range(500):
        assert pull.recv() == b"x"
        push.send(b"x", zmq.DONTWAIT)
