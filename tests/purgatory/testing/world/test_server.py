"""ServerHost: when the server is started again."""

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.server import ServerHost
from purgatory.testing.world.world import NS_PER_S


def test_a_suspended_machine_starts_no_server(world):
    """It is started again when the machine is awake."""
    machine = Machine(world, "server")
    host = ServerHost(machine, SimulatedNetwork(world))
    world.run(5)
    machine.suspend(30 * NS_PER_S)
    host.kill()
    world.run(29.5)
    assert (host.process, host.starts) == (None, 1)
    world.run(2)
    assert (host.process is not None, host.starts) == (True, 2)
    host.kill()
    host.discard()
