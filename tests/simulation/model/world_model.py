"""WorldModel: the model of a world's server, for all its processes."""

from collections.abc import Callable

from purgatory.service.server.state import ServerState
from purgatory.testing.world.process import Process
from tests.simulation.model.model_check import ModelCheck
from tests.simulation.model.server_model import ServerModel
from tests.simulation.model.start_check import StartCheck


class WorldModel:
    """One model, and an observer of each process; `report` is told of the first difference."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._model = ServerModel()
        self._check: ModelCheck | None = None
        # Whether it is not known if the last commit of earlier processes is on disk.
        self._is_in_doubt = False
        self._ended_at_start: set[str] = set()  # by starts that were killed

    def observe(self, process: Process) -> ModelCheck:
        """Make the observer of a process that is about to start."""
        if self._check is not None:
            self._check.abandon()
            self._is_in_doubt = self._is_in_doubt or self._check.is_in_doubt
            self._ended_at_start |= self._check.ended_at_start
        self._check = ModelCheck(self._model, process, self._report)
        return self._check

    def started(self, state: ServerState) -> None:
        """Compare what a process that has started has found on disk."""
        check = StartCheck(self._model, state, self._take_ended_at_start())
        difference = check.find_branch(is_in_doubt=self._is_in_doubt)
        self._is_in_doubt = False
        if self._check is not None:
            self._check.watch_leases(state)
        if difference:
            self._report(f"the disk has something else than the model of the server: {difference}")

    def _take_ended_at_start(self) -> set[str]:
        ended, self._ended_at_start = self._ended_at_start, set()
        if self._check is not None:
            ended |= self._check.ended_at_start
            self._check.ended_at_start = set()
        return ended

    @property
    def transaction_phase(self) -> str:
        """What the server does: see `FaultPhases`."""
        return "at rest" if self._check is None else self._check.phase

    @property
    def lease_phase(self) -> str:
        """What becomes of the server's jobs: see `FaultPhases`."""
        jobs = self._model.leases.jobs.values()
        if any(job.has_begun for job in jobs):
            return "handlers run"
        if any(job.worker is not None for job in jobs):
            return "jobs are leased"
        return "jobs wait" if jobs else "no job is due"
