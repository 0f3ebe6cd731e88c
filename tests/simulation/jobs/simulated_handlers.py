"""SimulatedHandlers: handlers that take as long, and raise, as chance has it."""

from purgatory.service.worker.held_jobs import HeldJob
from purgatory.testing.world.process import Process
from tests.simulation.jobs.handler_behaviour import HandlerBehaviour
from tests.simulation.jobs.job_oracle import JobOracle
from tests.simulation.jobs.world_handlers import WorldHandlers


class SimulatedHandlers(WorldHandlers):
    """Handlers that an oracle watches."""

    def __init__(
        self,
        process: Process,
        worker: str,
        concurrency: int,
        oracle: JobOracle,
        behaviour: HandlerBehaviour,
    ) -> None:
        super().__init__(process, worker, concurrency)
        self._oracle = oracle
        self._behaviour = behaviour

    def _run(self, held: HeldJob) -> None:
        job = self._oracle.begun(self._worker, held.leased.op_id, held.token)
        delay_ns, error = self._behaviour.draw(job)
        self._later(delay_ns, lambda: self._return(held, error))

    def _return(self, held: HeldJob, error: Exception | None) -> None:
        self._free += not held.is_lost
        self._oracle.returned(self._worker, held.leased.op_id, error)
        self._end(held, error)
