"""JobWorkload: how many workers and jobs a world has, and what their handlers do."""

from dataclasses import dataclass
from typing import Final

from purgatory.testing.world.world import World
from tests.simulation.programs.retry_delays import RetryDelays

#: The kinds of jobs.
JOB_KINDS: Final = ("mail", "bill")
#: What the program does that schedules jobs, and how often beside the others.
JOB_ACTIONS: Final = {
    "schedule": 10.0,
    "schedule_again": 1.0,
    "cancel_job": 1.0,
    "complete_job": 1.0,
    "revive": 0.3,
    "drop": 0.3,
}


@dataclass(frozen=True, slots=True)
class JobWorkload:
    """Of one world; times in seconds, the others are shares, but for the numbers.

    `burst`: so many jobs are scheduled at once, at most; then some wait in a worker.
    """

    workers: int
    concurrency: int
    rate: float
    burst: int
    longest_delay: float
    lease: float
    max_attempts: int
    retry_delays: RetryDelays
    longest_run: float
    failing: float
    hanging: float
    poison: float


def draw_jobs(world: World) -> JobWorkload:
    """Draw the jobs of a world."""
    chance = world.random
    burst = chance.choice((1, 1, 10, 40))
    return JobWorkload(
        workers=chance.choice((1, 2, 3, 5)),
        concurrency=chance.choice((1, 2, 8)),
        rate=world.spread(0.5, 10.0) / max(1.0, burst / 4),
        burst=burst,
        longest_delay=world.spread(0.1, 30.0),
        lease=chance.choice((world.spread(0.2, 5.0), world.spread(15.0, 60.0))),
        max_attempts=chance.choice((1, 2, 3, 5, 20)),
        retry_delays=_draw_retry_delays(world),
        longest_run=chance.choice((world.spread(0.01, 0.3), world.spread(0.1, 5.0))),
        failing=chance.choice((0.0, 0.1, 0.5)),
        hanging=chance.choice((0.0, 0.0, 0.02)),
        poison=chance.choice((0.0, 0.05, 0.3)),
    )


def _draw_retry_delays(world: World) -> RetryDelays:
    first = world.spread(0.001, 3.0)
    return RetryDelays(first, 3 * first)
