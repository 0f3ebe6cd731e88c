"""SteeredWorker: the process of a worker in a world of steered jobs."""

from purgatory.service.worker.handlers import Handler, HandlerLimits, Retry, make_handler
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from tests.simulation.jobs.world_worker import WorldWorker, is_simulated
from tests.simulation.steering.job_book import JobBook
from tests.simulation.steering.steered_handlers import SteeredHandlers
from tests.simulation.steering.steered_workload import KINDS, TIMED, SteeredWorkload


class SteeredWorker(WorldWorker):
    """A worker of some kinds, whose attempts a book records."""

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
        self._workload = workload
        self._kinds = kinds
        super().__init__(machine, network, group, workload.concurrency, workload.lease, book)

    def _make_runner(self, process: Process) -> SteeredHandlers:
        return SteeredHandlers(process, self.machine.name, self._workload, self._book)

    def _handlers(self) -> dict[str, Handler]:
        workload = self._workload
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
