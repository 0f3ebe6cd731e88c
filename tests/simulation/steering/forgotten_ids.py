"""Forgotten ids: what the server remembers it remembers no longer than it has promised."""

from typing import Final

from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.steering.job_book import LATER_NS, JobBook
from tests.simulation.steering.steering_program import SteeringProgram

# So many ids are tried.
_TRIED: Final = 3


def check_forgotten(
    world: World, book: JobBook, program: SteeringProgram, unique_for: float
) -> None:
    """Check that ids of some ended jobs are free when their time is over."""
    ended = [
        job
        for job in book.jobs.values()
        if job.end in ("done", "cancelled") and job.ended_by_ns >= 0 and not job.is_unsure
    ]
    chosen = world.random.sample(ended, min(_TRIED, len(ended)))
    world.run(unique_for + (LATER_NS + book.lost_time_ns()) / NS_PER_S + 1.0)
    for job in chosen:
        program.use_again(job)
