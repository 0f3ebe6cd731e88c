"""A peer that sends hostile numbers to the server of a world."""

from tests.simulation.programs.workload import STRANGER_SEEDS
from tests.simulation.simulation import Settings, Simulation


def test_its_requests_are_refused():
    """Each for what it says, and the world goes on."""
    simulation = Simulation(STRANGER_SEEDS[0], Settings(seconds=20.0, kinds=()))
    [stranger] = simulation.strangers
    verdict = simulation.run()
    assert verdict.violation == ""
    assert stranger.refused > 20
    assert verdict.operations > 0


def test_other_worlds():
    """They have none."""
    simulation = Simulation(5, Settings())
    assert simulation.strangers == []
    simulation.discard()
