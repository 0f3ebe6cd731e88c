"""WorkerProgram: a worker whose jobs an oracle watches."""

from purgatory.service.worker.handlers import Handler, Retry, make_handler
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from tests.simulation.jobs.handler_behaviour import HandlerBehaviour
from tests.simulation.jobs.job_oracle import JobOracle
from tests.simulation.jobs.simulated_handlers import SimulatedHandlers
from tests.simulation.jobs.world_worker import WorldWorker, is_simulated
from tests.simulation.programs.job_workload import JOB_KINDS, JobWorkload


class WorkerProgram(WorldWorker):
    """A worker of each kind of job; its handlers behave as chance has it."""

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        group: str,
        oracle: JobOracle,
        workload: JobWorkload,
        behaviour: HandlerBehaviour,
    ) -> None:
        self._oracle = oracle
        self._workload = workload
        self._behaviour = behaviour
        super().__init__(machine, network, group, workload.concurrency, workload.lease, oracle)

    def _make_runner(self, process: Process) -> SimulatedHandlers:
        name = self.machine.name
        return SimulatedHandlers(process, name, self._concurrency, self._oracle, self._behaviour)

    def _handlers(self) -> dict[str, Handler]:
        retry = Retry(self._workload.max_attempts, *self._workload.retry_delays)
        return {kind: make_handler(is_simulated, retry) for kind in JOB_KINDS}
