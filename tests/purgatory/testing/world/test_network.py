"""The simulated network: order, what breaks, and what each side notices."""

import pytest
import zmq

from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.sockets import SimulatedContext

ADDRESS = "tcp://server:1"


@pytest.fixture
def network(world):
    """The network of the world."""
    return SimulatedNetwork(world)


@pytest.fixture
def router(network):
    """A socket that listens."""
    made = SimulatedContext("server", Descriptors(), network).socket(zmq.ROUTER)
    made.bind(ADDRESS)
    return made


@pytest.fixture
def dealer(network, router, world):
    """A socket that is connected."""
    made = SimulatedContext("client", Descriptors(), network).socket(zmq.DEALER)
    made.connect(ADDRESS)
    world.run(1)
    assert events(made) == [zmq.EVENT_HANDSHAKE_SUCCEEDED]
    return made


def events(dealer):
    """Return the events that a dealer's monitor has."""
    monitor = dealer.get_monitor_socket(0)
    found = []
    while monitor.poll(0):
        found.append(int.from_bytes(monitor.recv_multipart()[0][:2], "little"))
    return found


def read(socket):
    """Return all frames of a router, without the routes."""
    frames = []
    while socket.getsockopt(zmq.EVENTS):
        socket.recv()
        frames.append(socket.recv(copy=False).bytes)
    return frames


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


@pytest.mark.parametrize("half_open", [False, True])
def test_a_broken_connection(world, network, dealer, router, half_open):
    """What is on its way is lost; both sides notice, one of them maybe late."""
    dealer.send(b"lost", 0)
    [connection] = network.of_host("client")
    network.break_off(connection, half_open=half_open)
    world.run(30)
    assert events(dealer) == [zmq.EVENT_DISCONNECTED]
    assert read(router) == []
    assert network.of_host("client") == []


def test_a_host_that_is_cut_off(world, network, dealer, router):
    """What is sent arrives when it is back; if that takes too long, both sides give up."""
    network.cut_off("client")
    dealer.send(b"late", 0)
    world.run(10)
    assert read(router) == []
    network.heal("client")
    assert read(router) == [b"late"]
    network.cut_off("server")
    world.run(60)
    assert events(dealer) == [zmq.EVENT_DISCONNECTED]


def test_nothing_listens(world, network):
    """The socket tries again until something does."""
    dealer = SimulatedContext("client", Descriptors(), network).socket(zmq.DEALER)
    dealer.connect(ADDRESS)
    world.run(10)
    assert events(dealer) == []
    SimulatedContext("server", Descriptors(), network).socket(zmq.ROUTER).bind(ADDRESS)
    world.run(3)
    assert events(dealer) == [zmq.EVENT_HANDSHAKE_SUCCEEDED]


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
