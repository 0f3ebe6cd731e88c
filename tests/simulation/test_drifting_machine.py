"""The clocks of a machine that run at another speed."""

from purgatory.testing.world.world import NS_PER_S
from tests.simulation.drifting_machine import DriftingMachine


def test_a_clock_that_drifts(world):
    """It counts more than passes, or less, and nothing is counted anew when its speed changes."""
    machine = DriftingMachine(world, "m")
    start_ns = machine.boot_ns()
    world.run(10)
    machine.drift(500)
    world.run(100)
    assert machine.boot_ns() - start_ns == 110 * NS_PER_S + NS_PER_S // 20
    machine.drift(-500)
    world.run(200)
    assert machine.monotonic_ns() - start_ns == 310 * NS_PER_S - NS_PER_S // 20
    machine.lose_power()
    assert machine.boot_ns() == NS_PER_S
