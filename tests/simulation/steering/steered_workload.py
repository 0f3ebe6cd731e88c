"""SteeredWorkload: how many workers a world of steered jobs has, and what happens in it."""

from dataclasses import dataclass
from typing import Final

from purgatory.testing.world.world import World

#: Kinds of jobs: plain ones, those with a time limit, and those whose handlers are coroutines.
PLAIN: Final = "mail"
TIMED: Final = "slow"
COROUTINE: Final = "swift"
KINDS: Final = (PLAIN, TIMED, COROUTINE)
#: What may go wrong.
FAULTS: Final = (
    "server_killed",
    "server_closed",
    "server_killed_at_a_write",
    "power_lost",
    "connection_broken",
    "connection_half_open",
    "server_cut_off",
    "client_killed",
    "worker_stopped",
    "worker_suspended",
    "worker_cut_off",
    "wall_clock_set",
    "client_clock_drifts",
    "client_suspended",
    "client_cut_off",
)


@dataclass(slots=True)
class SteeredWorkload:
    """Of one world; times in seconds, the others are shares, but for the numbers."""

    workers: int
    concurrency: int
    rate: float
    longest_delay: float
    lease: float
    max_attempts: int
    retry_delay: float
    longest_run: float
    failing: float
    hanging: float
    poison: float
    time_limit: float
    unique_for: float
    lease_programs: int
    #: Whether handlers only raise for poison, and are quick.
    is_calm: bool = False


def draw_workload(world: World) -> SteeredWorkload:
    """Draw the jobs of a world."""
    chance = world.random
    return SteeredWorkload(
        workers=chance.choice((1, 2, 3)),
        concurrency=chance.choice((1, 2, 8)),
        rate=world.spread(1.0, 10.0),
        longest_delay=world.spread(0.1, 20.0),
        lease=chance.choice((world.spread(0.5, 5.0), world.spread(15.0, 60.0))),
        max_attempts=chance.choice((1, 2, 3, 5)),
        retry_delay=world.spread(0.01, 3.0),
        longest_run=chance.choice((world.spread(0.01, 0.3), world.spread(0.1, 5.0))),
        failing=chance.choice((0.0, 0.1, 0.5)),
        hanging=chance.choice((0.0, 0.1)),
        poison=chance.choice((0.0, 0.05, 0.3)),
        time_limit=world.spread(0.5, 10.0),
        unique_for=chance.choice((0.5, 2.0, 10.0)),
        lease_programs=chance.choice((0, 0, 2, 3)),
    )


def draw_faults(world: World) -> tuple[str, ...]:
    """Draw the kinds of faults of a world; none in some of them."""
    if world.chance(0.2):
        return ()
    return tuple(kind for kind in FAULTS if world.chance(0.3))
