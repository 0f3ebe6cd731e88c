"""HandlerBehaviour: what the handlers of a world do: return, raise, take their time, or hang."""

from typing import Final
from zlib import crc32

from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.jobs.job_records import JobRecord
from tests.simulation.programs.job_workload import JobWorkload

# The shortest and the longest that a handler hangs, in seconds; and how long one runs in calm.
_HANGS_S: Final = (30.0, 90.0)
_CALM_S: Final = 0.1


class JobHandlerError(Exception):
    """What handlers raise."""


class WordlessError(JobHandlerError):
    """What the handlers of some jobs raise: its text cannot be made."""

    def __str__(self) -> str:
        """Raise ValueError."""
        raise ValueError("no text")


class HandlerBehaviour:
    """Of one world; `workload` says how often."""

    def __init__(self, world: World, workload: JobWorkload) -> None:
        self._world = world
        self._workload = workload
        #: Whether handlers only raise for poison, and none hangs.
        self.is_calm: bool = False

    def draw(self, job: JobRecord) -> tuple[int, Exception | None]:
        """Return for how many nanoseconds a handler runs, and what it raises then."""
        seconds = self._draw_seconds()
        fails = job.is_poison or (not self.is_calm and self._world.chance(self._workload.failing))
        # By the id and not by chance: the other draws of the world stay as they were.
        kind = JobHandlerError if crc32(job.job_id.encode()) % 4 else WordlessError
        error = kind(job.job_id) if fails else None
        return job.handler_ns or int(seconds * NS_PER_S), error

    def _draw_seconds(self) -> float:
        if self.is_calm:
            return self._world.spread(0.0001, _CALM_S)
        if self._world.chance(self._workload.hanging):
            return self._world.spread(*_HANGS_S)
        return self._world.spread(0.0001, self._workload.longest_run)
