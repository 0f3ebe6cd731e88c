"""What the tests of the simulation share."""

import pytest

from purgatory.simulation.programs.workload import usual_workload
from purgatory.simulation.simulation import Settings, Simulation
from purgatory.simulation.world.world import World


@pytest.fixture
def world():
    """An empty world."""
    return World(1)


@pytest.fixture
def simulation():
    """A world without faults, in which programs ask for things."""
    made = Simulation(2, Settings(kinds=(), workload=usual_workload(3, 20.0)))
    made.world.run(5)
    made.world.history = []
    yield made
    made.discard()
