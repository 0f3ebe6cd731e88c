"""Troubles: how long nothing was wrong."""

from purgatory.testing.world.world import NS_PER_S
from tests.simulation.troubles import RECOVERY_NS, Troubles


def test_calm(world):
    """It ends with a fault, and begins again when that is mended."""
    troubles = Troubles(world)
    assert troubles.end_of_calm(5, 10) == 15
    world.run(100)
    troubles.add(20 * NS_PER_S)
    world.run(1)
    troubles.add()  # within the other one
    over_ns = 120 * NS_PER_S + RECOVERY_NS
    assert troubles.end_of_calm(0, 10) == 10
    assert troubles.end_of_calm(95 * NS_PER_S, 5 * NS_PER_S) == 100 * NS_PER_S
    assert troubles.end_of_calm(95 * NS_PER_S, 6 * NS_PER_S) == over_ns + 6 * NS_PER_S
    assert troubles.end_of_calm(110 * NS_PER_S, 1) == over_ns + 1
    assert troubles.end_of_calm(over_ns + 5, 1) == over_ns + 6
