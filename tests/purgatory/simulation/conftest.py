"""What the tests of the simulation share."""

import pytest

from purgatory.simulation.world.world import World


@pytest.fixture
def world():
    """An empty world."""
    return World(1)
