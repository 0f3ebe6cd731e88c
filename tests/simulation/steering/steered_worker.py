"""SteeredWorker: the process of a worker in a world of steered jobs."""

from purgatory.service.client.client import Client
from purgatory.service.worker.demand import WorkerSettings
from purgatory.service.worker.handlers import Handler, HandlerLimits, Retry, make_handler
from purgatory.service.worker.lease_returns import WorkerCounts
from purgatory.service.worker.worker_loop import WorkerLoop
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.world import NS_PER_MS
from tests.simulation.jobs.watched_calls import WatchedCalls
from tests.simulation.jobs.worker_program import WorkerProgram, WorkerThread, is_simulated
from tests.simulation.steering.job_book import JobBook
from tests.simulation.steering.steered_handlers import SteeredHandlers
from tests.simulation.steering.steered_workload import KINDS, TIMED, SteeredWorkload

_FLUSH_S = 10.0


class SteeredWorker(WorkerProgram):
    """A worker of the client name `group`, which is started again when it has stopped."""

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        group: str,
        book: JobBook,
        workload: SteeredWorkload,
        kinds: tuple[str, ...] = KINDS,
    ) -> None:
        self._book = book
        self._steered = workload
        self._kinds = kinds
        self.machine = machine
        self._network = network
        self._group = group
        self.start()

    def start(self) -> None:
        """Start the process, unless it runs."""
        name, workload = self.machine.name, self._steered
        self._note("started")
        process = self._process = Process(self.machine, self._network)
        client = Client(ADDRESS, name=self._group, platform=process)
        runner = SteeredHandlers(process, name, workload, self._book)
        self._runner = runner  # type: ignore[assignment]  # it has what faults need
        lease_ms = int(workload.lease * 1000)
        calls = WatchedCalls(client.job_calls, process, name, lease_ms * NS_PER_MS, self._book)
        settings = WorkerSettings(name, ADDRESS, workload.concurrency, lease_ms, _FLUSH_S)
        self._loop = runner.loop = WorkerLoop(
            settings, self._handlers(), calls, runner, WorkerCounts(), process
        )
        thread = process.thread(WorkerThread(self, self._loop), "worker")
        self._loop.wake = thread.wake
        self._loop.start()
        thread.start()

    def _handlers(self) -> dict[str, Handler]:
        """Return handlers that `SteeredHandlers` runs in place of their functions."""
        workload = self._steered
        retry = Retry(workload.max_attempts, workload.retry_delay, 3 * workload.retry_delay)
        limits = HandlerLimits(timeout=workload.time_limit)
        return {
            kind: make_handler(is_simulated, retry, limits if kind == TIMED else HandlerLimits())
            for kind in self._kinds
        }

    def start_again(self) -> None:
        """Start the process if it does not run."""
        if not self.running:
            self.start()

    def kill(self) -> None:
        """Kill the process: its handlers run no more."""
        super().kill()
        self._book.lose(self.machine.name)
