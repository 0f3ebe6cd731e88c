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


def test_killed_while_it_starts(world):
    """Its deadlines may have been moved on disk or not: they may be wrong by as much."""
    machine = Machine(world, "server")
    host = ServerHost(machine, SimulatedNetwork(world))
    world.run(5)
    machine.wall_error_ns = 27 * NS_PER_S
    host.kill()
    machine.disk.set_faults(lambda _: host.kill(), lambda _: None)
    world.run(1.5)
    assert host.process is None
    machine.disk.work_well()
    host.lose_power()
    world.run(2)
    assert host.process is not None
    assert host.lost_time_ns >= 27 * NS_PER_S
    host.kill()
    host.discard()
