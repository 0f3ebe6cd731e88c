"""WorldHandlers: runs the handlers of a worker in a world, as `HandlerThreads` does in threads.

So many at a time. A machine that is suspended goes on with them when it wakes, and a process that
is killed never does.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from purgatory.service.worker.held_jobs import HeldJob
from purgatory.testing.world.process import Process

if TYPE_CHECKING:
    from purgatory.service.worker.worker_loop import WorkerLoop

# Nanoseconds until a thread runs that was given a job.
LATENCY_NS: Final = 50_000


class WorldHandlers:
    """Up to `concurrency` handlers of one worker's process; `loop` is set before the first job.

    A subclass's `_run` lets the handler of a job that has begun return later: `_end`.
    """

    def __init__(self, process: Process, worker: str, concurrency: int) -> None:
        self.loop: WorkerLoop
        self._process = process
        self._world = process.world
        self._worker = worker
        self._free = concurrency
        self._queue: deque[HeldJob] = deque()
        #: Called, once each, when jobs wait because no handler is free.
        self.when_jobs_wait: list[Callable[[], None]] = []

    def add(self, held: HeldJob) -> None:
        """See `HandlerRunner`."""
        self._queue.append(held)
        self._later(self._world.random.randint(0, LATENCY_NS), self._begin)

    def cancel(self, held: HeldJob) -> None:
        """See `HandlerRunner`: these are no coroutines."""

    def lose(self, held: HeldJob) -> None:
        """See `HandlerRunner`: it goes on, beside another one."""
        self._free += 1
        self._later(LATENCY_NS, self._begin)

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
        raise NotImplementedError

    def _end(self, held: HeldJob, error: Exception | None) -> None:
        self.loop.end(held, error)
        self._begin()
