"""SteeredHandlers: the handlers of a worker in a world of steered jobs.

A handler returns a value that names its attempt, raises, or hangs, as chance has
it. A job of the kind of coroutines ends when it is cancelled.
"""

from typing import Final

from purgatory.service.worker.held_jobs import HeldJob
from purgatory.testing.world.process import Process
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.jobs.handler_behaviour import JobHandlerError
from tests.simulation.jobs.world_handlers import LATENCY_NS, WorldHandlers
from tests.simulation.steering.job_book import JobBook
from tests.simulation.steering.steered_job import SteeredJob
from tests.simulation.steering.steered_workload import COROUTINE, TIMED, SteeredWorkload

# A handler that hangs does so for longer than any world lasts.
_HANGS_S: Final = 1e6
_CALM_S: Final = 0.1


class SteeredHandlers(WorldHandlers):
    """Handlers whose attempts a book records."""

    def __init__(
        self, process: Process, worker: str, workload: SteeredWorkload, book: JobBook
    ) -> None:
        super().__init__(process, worker, workload.concurrency)
        self._workload = workload
        self._book = book
        self._running: dict[int, tuple[HeldJob, SteeredJob | None]] = {}  # by token

    def cancel(self, held: HeldJob) -> None:
        """See `HandlerRunner`: a coroutine ends."""
        if held.leased.kind == COROUTINE:
            self._later(LATENCY_NS, lambda: self._return(held, JobHandlerError("cancelled")))

    def lose(self, held: HeldJob) -> None:
        """See `HandlerRunner`: it goes on, beside another one."""
        self._book.lose(self._worker, held.token)
        super().lose(held)

    def _run(self, held: HeldJob) -> None:
        leased, token = held.leased, held.token
        job = self._book.begun(self._worker, leased.op_id, token, leased.attempt)
        self._running[id(held)] = held, job
        held.result = f"{leased.op_id}:{token}"
        seconds = self._draw_seconds(held)
        error = JobHandlerError(leased.op_id) if self._fails(job) else None
        if leased.kind == TIMED and seconds < _CALM_S and self._world.chance(0.2):
            held.extend(self._workload.time_limit)
        self._later(int(seconds * NS_PER_S), lambda: self._return(held, error))

    def _fails(self, job: SteeredJob | None) -> bool:
        workload = self._workload
        if job is not None and job.is_poison:
            return True
        return not workload.is_calm and self._world.chance(workload.failing)

    def _draw_seconds(self, held: HeldJob) -> float:
        workload = self._workload
        if held.leased.kind == TIMED and self._world.chance(workload.hanging):
            return _HANGS_S
        longest_s = _CALM_S if workload.is_calm else workload.longest_run
        return self._world.spread(0.0001, longest_s)

    def _return(self, held: HeldJob, error: Exception | None) -> None:
        found = self._running.pop(id(held), None)
        if found is None:
            return  # it was cancelled
        self._free += not held.is_lost
        _, job = found
        self._world.note(f"{self._worker}: {held.leased.op_id} {error or 'returns'}")
        if job is not None:
            # Under the token of its beginning, whatever lease it has by now.
            token = int(str(held.result).rpartition(":")[2])
            self._book.returned(job, token, is_ok=error is None and not held.is_lost)
        self._end(held, error)
