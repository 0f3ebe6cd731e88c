"""What the tests of the simulation share."""

import pytest

from purgatory.testing.world.world import World
from tests.simulation.programs.workload import usual_workload
from tests.simulation.simulation import Settings, Simulation


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
