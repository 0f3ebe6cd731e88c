"""WorldWorker: a worker's process on a simulated machine: its loop, stepped by the world.

What `Worker` does in real threads: the thread of `run` steps the loop, others run handlers.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.client.client import Client
from purgatory.service.worker.demand import WorkerSettings
from purgatory.service.worker.handlers import Handler
from purgatory.service.worker.lease_returns import WorkerCounts
from purgatory.service.worker.worker_loop import WorkerLoop
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S
from tests.simulation.jobs.watched_calls import LeaseWatcher, WatchedCalls
from tests.simulation.jobs.world_handlers import WorldHandlers

# Seconds that the last ends may take, and nanoseconds until a worker that stopped is started again.
_FLUSH_S: Final = 10.0
_AGAIN_NS: Final = NS_PER_S


class WorldWorker:
    """A worker of the client name `group`, which is started again when it has stopped.

    A subclass says which handlers it has, and what runs them.
    """

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        group: str,
        concurrency: int,
        lease_s: float,
        watcher: LeaseWatcher,
    ) -> None:
        self.machine = machine
        self._network = network
        self._group = group
        self._concurrency = concurrency
        self._lease_ms = int(lease_s * 1000)
        self._watcher = watcher
        self._process: Process
        self._loop: WorkerLoop
        self._runner: WorldHandlers
        self.start()

    def start(self) -> None:
        """Start the process, unless it runs."""
        name, lease_ms = self.machine.name, self._lease_ms
        self._note("started")
        process = self._process = Process(self.machine, self._network)
        client = Client(ADDRESS, name=self._group, platform=process)
        runner = self._runner = self._make_runner(process)
        calls = WatchedCalls(client.job_calls, process, name, lease_ms * NS_PER_MS, self._watcher)
        settings = WorkerSettings(name, ADDRESS, self._concurrency, lease_ms, _FLUSH_S)
        self._loop = runner.loop = WorkerLoop(
            settings, self._handlers(), calls, runner, WorkerCounts(), process
        )
        thread = process.thread(WorkerThread(self, self._loop), "worker")
        self._loop.wake = thread.wake
        self._loop.start()
        thread.start()

    def _make_runner(self, process: Process) -> WorldHandlers:
        raise NotImplementedError

    def _handlers(self) -> dict[str, Handler]:
        """Return handlers that the runner runs in place of their functions."""
        raise NotImplementedError

    def stop(self, seconds: float) -> None:
        """Stop it as SIGTERM does; it is started again when it has ended."""
        if self.running:
            self._note("stops")
            self._loop.stop(seconds)

    def when_jobs_wait(self, call: Callable[[], None]) -> None:
        """Make a call when jobs wait in this process that it was leased."""
        self._runner.when_jobs_wait.append(call)

    def on_stopped(self) -> None:
        """Note that the loop has finished: the process ends."""
        self.kill()
        self.machine.world.after(_AGAIN_NS, self._start_again)

    def _start_again(self) -> None:
        if not self.running:
            self.start()

    def kill(self) -> None:
        """Kill the process."""
        if self.running:
            self._note("gone")
            self._process.kill()

    @property
    def running(self) -> bool:
        """Whether it was not killed since it was started."""
        return self._process.alive

    def _note(self, what: str) -> None:
        self.machine.world.note(f"{self.machine.name}: {what}")


class WorkerThread:
    """The thread of a worker, as a `Loop`."""

    def __init__(self, program: WorldWorker, loop: WorkerLoop) -> None:
        self.sleep_seconds = loop.sleep_seconds
        self.step = loop.step
        self.finished = loop.finished
        self.shut_down = program.on_stopped


def is_simulated(job: object) -> None:
    """Run no handler: `WorldHandlers` does."""
    raise NotImplementedError(job)
