"""The sockets of a process: order, answers, an edge-triggered descriptor."""

import pytest
import zmq

from tests.testing.simulated_sockets import events, read


def test_frames_arrive_in_order(world, dealer, router):
    """However long each takes."""
    frames = [bytes([n]) for n in range(200)]
    for frame in frames:
        dealer.send(frame, 0)
    world.run(2)
    assert read(router) == frames


def test_a_router_answers(world, dealer, router):
    """By the route; an unknown one is an error, and so are too many frames."""
    dealer.send(b"question", 0)
    world.run(1)
    route = router.recv()
    router.recv(copy=False)
    router.send(route, zmq.SNDMORE)
    router.send(b"answer", 0)
    world.run(1)
    assert dealer.recv(0) == b"answer"
    with pytest.raises(zmq.Again):
        dealer.recv(0)
    with pytest.raises(zmq.ZMQError):
        router.send(b"unknown", zmq.SNDMORE)
    while len(router._peers[route].to_dialer) < router._network.send_hwm:
        router.send(route, zmq.SNDMORE)
        router.send(b"more", 0)
    with pytest.raises(zmq.Again):
        router.send(route, zmq.SNDMORE)


def test_the_end_of_a_process(world, network, router, dealer):
    """The other side notices, and what is sent then goes nowhere."""
    router.abort()
    world.run(30)
    assert events(dealer) == [zmq.EVENT_DISCONNECTED]
    with pytest.raises(zmq.Again):
        dealer.send(b"a", 0)


def test_a_descriptor_is_edge_triggered(world, dealer, router):
    """Any use of the socket consumes what made it readable, whatever is left to read."""
    descriptors = router._descriptors
    for frame in (b"1", b"2"):
        dealer.send(frame, 0)
    world.run(1)
    assert descriptors.is_readable(router.FD)
    router.recv()
    assert not descriptors.is_readable(router.FD)
    assert router.getsockopt(zmq.EVENTS) == zmq.POLLIN
