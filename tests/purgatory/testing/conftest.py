"""What the tests of simulated worlds share."""

import pytest

from purgatory.testing.world.world import World


@pytest.fixture
def world():
    """An empty world."""
    return World(1)
