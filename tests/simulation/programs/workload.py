"""Workload: what the programs of a world ask for, how often, and of what size.

Each seed draws its own: a world that does everything a little would seldom do anything much.
"""

from dataclasses import dataclass
from typing import Final

from purgatory.testing.world.world import World
from tests.simulation.programs.job_workload import JobWorkload, draw_jobs

#: What programs do, and how often beside the others, at most.
ACTIONS: Final = {
    "defer": 6.0,
    "submit": 6.0,
    "complete": 8.0,
    "complete_limited": 2.0,
    "hold": 2.0,
    "fail": 1.0,
    "extend": 2.0,
    "cancel": 1.0,
    "submit_again": 1.0,
}
#: Modulo 16, the seeds of worlds with clients of asyncio.
ASYNC_SEEDS: Final = (12, 13)
#: And those of worlds in which programs submit at the last moment of a held event.
LAST_MOMENT_SEEDS: Final = (2, 7)
#: And those of worlds in which a peer sends hostile numbers.
STRANGER_SEEDS: Final = (4, 9)
_NEEDED: Final = ("defer", "submit", "complete")


@dataclass(frozen=True, slots=True)
class Workload:
    """Of one world. `weights` are of the actions; times in seconds; `rate` of all programs."""

    clients: int
    rate: float
    keys: int
    shortest_timeout: float
    longest_timeout: float
    weights: dict[str, float]
    #: How often the handler of outcomes raises.
    handler_errors: float
    #: What workers do; None: there are none.
    jobs: JobWorkload | None = None
    #: Whether the server has a journal.
    has_journal: bool = False
    #: Whether every second client is an `AsyncClient`.
    has_async: bool = False
    #: Whether a peer sends hostile numbers.
    has_stranger: bool = False


def draw_workload(world: World) -> Workload:
    """Draw the workload of a world: some actions are left out, others are frequent.

    Each world of an odd seed has jobs, too, and two of eight have a journal, one of them with jobs.
    Those with asyncio, or with last moments, came later: the others are as they were.
    """
    chance = world.random
    weights = {
        name: weight * chance.random()
        for name, weight in ACTIONS.items()
        if name in _NEEDED or chance.random() < 0.7
    }
    if world.seed % 16 in LAST_MOMENT_SEEDS:
        weights["hold_briefly"] = 3.0
    return Workload(
        clients=chance.choice((1, 3, 8, 20)),
        rate=world.spread(1.0, 100.0),
        keys=chance.choice((2, 10, 100, 1000)),
        shortest_timeout=world.spread(0.002, 10.0),
        longest_timeout=world.spread(10.0, 1000.0),
        weights=weights,
        handler_errors=chance.choice((0.0, 0.0, 0.1)),
        jobs=draw_jobs(world) if world.seed % 2 else None,
        has_journal=world.seed % 8 in (4, 5),
        has_async=world.seed % 16 in ASYNC_SEEDS,
        has_stranger=world.seed % 16 in STRANGER_SEEDS,
    )


def usual_workload(clients: int, rate: float) -> Workload:
    """Return one as a service has it in production, to measure by."""
    return Workload(clients, rate, 1000, 1.0, 600.0, dict(ACTIONS), 0.0)
