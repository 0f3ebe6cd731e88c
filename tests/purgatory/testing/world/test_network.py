"""The simulated network: order, what breaks, and what each side notices."""

import zmq

from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.sockets import SimulatedContext
from tests.testing.simulated_sockets import events, read

ADDRESS = "tcp://server:1"


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


def test_of_two_that_listen(world, network):
    """The last one accepts, and once it has stopped the one before."""
    first, second = (
        SimulatedContext(name, Descriptors(), network).socket(zmq.ROUTER) for name in "ab"
    )
    first.bind(ADDRESS)
    second.bind(ADDRESS)
    assert network.listener(ADDRESS).host == "b"
    second.close(0)
    assert network.listener(ADDRESS).host == "a"
    first.close(0)
    assert network.listener(ADDRESS) is None
