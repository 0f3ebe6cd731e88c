"""WorkerGroup: the workers of one client name in a world, and the program that schedules jobs."""

from typing import Final

from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import World
from tests.simulation.drifting_machine import DriftingMachine
from tests.simulation.jobs.handler_behaviour import HandlerBehaviour
from tests.simulation.jobs.job_oracle import JobOracle
from tests.simulation.jobs.job_program import JobProgram
from tests.simulation.jobs.worker_program import WorkerProgram
from tests.simulation.oracle import Oracle
from tests.simulation.programs.job_workload import JobWorkload
from tests.simulation.programs.workload import Workload
from tests.simulation.troubles import Troubles

#: The client name of the group.
GROUP: Final = "jobs"
#: Seconds in which all jobs are done or dead, once faults have ended.
JOBS_SETTLE_S: Final = 200.0
# When all is calm, so many jobs more are scheduled, of up to so many leases, or seconds.
_CALM_JOBS: Final = 5
_CALM_LEASES: Final = 3.0
_CALM_LONGEST_S: Final = 30.0


class WorkerGroup:
    """What a world has for jobs."""

    def __init__(
        self,
        world: World,
        troubles: Troubles,
        network: SimulatedNetwork,
        oracle: Oracle,
        workload: Workload,
        jobs: JobWorkload,
    ) -> None:
        self._world = world
        self._workload = jobs
        self.oracle: JobOracle = JobOracle(
            world, troubles, oracle, jobs.max_attempts, jobs.retry_delays
        )
        self._behaviour = HandlerBehaviour(world, jobs)
        self.program: JobProgram = JobProgram(
            DriftingMachine(world, GROUP), network, GROUP, oracle, self.oracle, workload, jobs
        )
        self.workers: list[WorkerProgram] = [
            WorkerProgram(
                DriftingMachine(world, f"worker-{n}"),
                network,
                GROUP,
                self.oracle,
                jobs,
                self._behaviour,
            )
            for n in range(jobs.workers)
        ]

    def settle(self) -> None:
        """Let handlers be quick, and have all workers run."""
        self._behaviour.is_calm = True
        for worker in self.workers:
            if not worker.running:
                worker.start()

    def schedule_calm_jobs(self) -> None:
        """Schedule jobs when nothing is wrong: their leases are kept while they run."""
        longest_s = min(_CALM_LEASES * self._workload.lease, _CALM_LONGEST_S)
        for _ in range(_CALM_JOBS):
            handler_s = self._world.spread(0.01, longest_s)
            self.program.schedule(self._world.spread(0.001, 5.0), handler_s=handler_s)
