"""MeasuredServer: by how much deadlines may be wrong."""

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.measured_server import MeasuredServer
from tests.simulation.troubles import Troubles


def test_killed_while_it_starts(world):
    """Its deadlines may have been moved on disk or not: they may be wrong by as much."""
    machine = Machine(world, "server")
    host = MeasuredServer(machine, SimulatedNetwork(world), Troubles(world))
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


def test_its_database_has_a_write_ahead_log(world):
    """As in production: commits are synced once, and lost never."""
    host = MeasuredServer(Machine(world, "server"), SimulatedNetwork(world), Troubles(world))
    world.run(1)
    assert host.machine.disk.exists("/data/purgatory.db-wal")
    host.kill()
    host.discard()
