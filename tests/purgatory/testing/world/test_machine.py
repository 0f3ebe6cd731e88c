"""The clocks of a machine."""

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.world import NS_PER_S


def test_clocks_of_a_machine(world):
    """Suspended, its monotonic clock stands still; a boot begins both anew, and not the wall's."""
    machine = Machine(world, "m")
    machine.suspend(4 * NS_PER_S)
    world.run(10)
    assert machine.boot_ns() == 11 * NS_PER_S
    assert machine.monotonic_ns() == 7 * NS_PER_S
    before, boot = machine.wall_ns(), machine.boot_id
    machine.lose_power()
    assert machine.boot_ns() == machine.monotonic_ns() == NS_PER_S
    assert machine.wall_ns() == before
    assert machine.boot_id != boot
