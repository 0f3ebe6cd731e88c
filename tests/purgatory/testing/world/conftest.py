"""A network with a socket that listens, and one that is connected."""

import pytest
import zmq

from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.disk import Disk
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.sockets import SimulatedContext

ADDRESS = "tcp://server:1"


@pytest.fixture
def disk(world):
    """A disk without files."""
    return Disk(world)


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
    monitor = made.get_monitor_socket(0)
    assert monitor.poll(0)
    monitor.recv_multipart()
    return made


@pytest.fixture
def process(world, network):
    """A process on a machine of the network."""
    return Process(Machine(world, "host"), network)
