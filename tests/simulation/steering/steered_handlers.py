"""SteeredHandlers: runs the handlers of a worker in a world of steered jobs.

So many at a time. A handler returns a value that names its attempt, raises, or hangs, as chance has
it. A job of the kind of coroutines ends when it is cancelled.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from purgatory.service.worker.held_jobs import HeldJob
from purgatory.testing.world.process import Process
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.jobs.handler_behaviour import JobHandlerError
from tests.simulation.steering.job_book import JobBook
from tests.simulation.steering.steered_job import SteeredJob
from tests.simulation.steering.steered_workload import COROUTINE, TIMED, SteeredWorkload

if TYPE_CHECKING:
    from purgatory.service.worker.worker_loop import WorkerLoop

_LATENCY_NS: Final = 50_000
# A handler that hangs does so for longer than any world lasts.
_HANGS_S: Final = 1e6
_CALM_S: Final = 0.1


class SteeredHandlers:
    """Up to `concurrency` handlers of one worker's process; `loop` is set before the first job."""

    def __init__(
        self, process: Process, worker: str, workload: SteeredWorkload, book: JobBook
    ) -> None:
        self.loop: WorkerLoop
        self._process = process
        self._world = process.world
        self._worker = worker
        self._workload = workload
        self._free = workload.concurrency
        self._book = book
        self._queue: deque[HeldJob] = deque()
        self._running: dict[int, tuple[HeldJob, SteeredJob | None]] = {}  # by token
        #: Called, once each, when jobs wait because no handler is free.
        self.when_jobs_wait: list[Callable[[], None]] = []

    def add(self, held: HeldJob) -> None:
        """See `HandlerRunner`."""
        self._queue.append(held)
        self._later(self._world.random.randint(0, _LATENCY_NS), self._begin)

    def cancel(self, held: HeldJob) -> None:
        """See `HandlerRunner`: a coroutine ends."""
        if held.leased.kind == COROUTINE:
            self._later(_LATENCY_NS, lambda: self._return(held, JobHandlerError("cancelled")))

    def lose(self, held: HeldJob) -> None:
        """See `HandlerRunner`: it goes on, beside another one."""
        self._free += 1
        self._book.lose(self._worker, held.token)
        self._later(_LATENCY_NS, self._begin)

    def stop(self, seconds: float) -> None:
        """See `HandlerRunner`: what is in the queue is not begun, as the loop does not let it."""

    def _later(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Make a call when the process lives and its machine is awake."""

        def look() -> None:
            asleep_ns = self._process.machine.awake_at_ns - self._world.now_ns
            if not self._process.alive:
                return
            if asleep_ns > 0:
                self._world.after(asleep_ns, look)
            else:
                call()

        self._world.after(delay_ns, look)

    def _begin(self) -> None:
        """Begin what there is room for."""
        while self._free and self._queue:
            held = self._queue.popleft()
            if self.loop.begin(held):
                self._free -= 1
                self._run(held)
        if self._queue:
            calls, self.when_jobs_wait = self.when_jobs_wait, []
            for call in calls:
                call()

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
        self.loop.end(held, error)
        self._begin()
