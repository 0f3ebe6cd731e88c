"""Worlds whose events are for crowds: each ends few operations in a transaction.

What a server does for ten thousand waiting operations happens here with three.
"""

from tests.simulation.simulation import Settings, Verdict
from tests.simulation.simulation import simulate as simulate_service

#: An event ends as many operations in a transaction, by the seed.
PORTIONS = (1, 2, 3)


def simulate(seed: int, *, with_history: bool = False) -> Verdict:
    """Run the world of a seed."""
    settings = Settings(portion=PORTIONS[seed % len(PORTIONS)])
    return simulate_service(seed, settings, with_history=with_history)
