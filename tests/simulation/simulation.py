"""Simulation: a world of a server, its clients and faults, from a seed to a verdict.

First all happens at once: programs ask, faults come and go. Then faults and requests end, and what
is due must be told within a bound. Then the oracle looks at everything. Last, in some worlds, the
database rots.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.collector import seldom_collecting
from tests.simulation.drifting_machine import DriftingMachine
from tests.simulation.fault_phases import FaultPhases
from tests.simulation.faults import REFUSING, Faults, Victim
from tests.simulation.jobs.worker_group import JOBS_SETTLE_S, WorkerGroup
from tests.simulation.journal.simulated_sink import JOURNAL_SETTLE_S, TROUBLE_S
from tests.simulation.journal.world_journal import WorldJournal
from tests.simulation.measured_server import MeasuredServer
from tests.simulation.model.world_model import WorldModel
from tests.simulation.oracle import Oracle
from tests.simulation.programs.async_program import AsyncProgram
from tests.simulation.programs.program import Program
from tests.simulation.programs.stranger import Stranger
from tests.simulation.programs.workload import Workload, draw_workload
from tests.simulation.rot import ROT_SEEDS, Rot
from tests.simulation.troubles import RECOVERY_NS, Troubles

if TYPE_CHECKING:
    from tests.simulation.jobs.worker_program import WorkerProgram

# Seconds after the last deadline within which all outcomes must have been told, without faults.
SETTLE_S = 120.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a simulation, beside its seed.

    `seconds` are those with requests and faults. `kinds` are the faults that happen, and `workload`
    what programs do; the seed draws both if they are None. `has_model`: whether the server's
    answers are compared with those of a model. `portion`: an event ends so many operations in a
    transaction; 0: the server's default, which the operations of a world never reach.
    """

    seconds: float = 60.0
    kinds: tuple[str, ...] | None = None
    workload: Workload | None = None
    has_model: bool = True
    portion: int = 0


@dataclass(slots=True)
class Verdict:
    """What came of a seed: `violation` is empty if every promise was kept."""

    seed: int
    violation: str = ""
    simulated_s: float = 0.0
    steps: int = 0
    operations: int = 0
    jobs: int = 0
    kinds: tuple[str, ...] = ()
    faults: dict[str, int] = field(default_factory=dict)
    #: How often each kind of fault has happened in which phase of the server.
    phases: Counter[tuple[str, str]] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)


class Simulation:
    """The world of a seed."""

    def __init__(self, seed: int, settings: Settings, *, with_history: bool = False) -> None:
        self.world = World(seed)
        if with_history:
            self.world.history = []
        self._seconds = settings.seconds
        self._may_rot = settings.kinds is None
        self.troubles: Troubles = Troubles(self.world)
        self.oracle: Oracle = Oracle(self.world, self.troubles)
        self.network: SimulatedNetwork = SimulatedNetwork(self.world)
        self.workload: Workload = settings.workload or draw_workload(self.world)
        #: That of the server: one, or none.
        self.journals: list[WorldJournal] = (
            [WorldJournal(seed, self.oracle)] if self.workload.has_journal else []
        )
        model = WorldModel(self.oracle.report) if settings.has_model else None
        self.server = MeasuredServer(
            Machine(self.world, "server"),
            self.network,
            self.troubles,
            self.journals,
            model,
            settings.portion,
        )
        self.phases = FaultPhases(self.server, model)
        self.oracle.lost_time_ns = lambda: self.server.lost_time_ns
        self.oracle.latest_now_ms = self.server.latest_now_ms
        self.programs: list[Program] = [self._program(n) for n in range(self.workload.clients)]
        #: Those that have jobs to do: one, or none.
        self.groups: list[WorkerGroup] = self._make_groups()
        self.programs += [group.program for group in self.groups]
        self.workers: list[WorkerProgram] = [
            worker for group in self.groups for worker in group.workers
        ]
        self.faults: Faults = Faults(
            self.world,
            self.network,
            self.server,
            self.programs,
            self.workers,
            self.troubles,
            self.oracle.report,
            settings.kinds,
            self.phases.note,
        )
        #: One, or none.
        self.strangers: list[Stranger] = (
            [Stranger(self.world, self.network, self.oracle.report)]
            if self.workload.has_stranger
            else []
        )
        self.oracle.disk_may_fail = not REFUSING.isdisjoint(self.faults.kinds)

    def _program(self, number: int) -> Program:
        cls = AsyncProgram if self.workload.has_async and number % 2 == 0 else Program
        name = f"client-{number}"
        machine = DriftingMachine(self.world, name)
        return cls(machine, self.network, name, self.oracle, self.workload)

    def _make_groups(self) -> list[WorkerGroup]:
        jobs = self.workload.jobs
        if jobs is None:
            return []
        made = self.world, self.troubles, self.network, self.oracle
        return [WorkerGroup(*made, self.workload, jobs)]

    def run(self) -> Verdict:
        """Run it to the end, or to the first violation."""
        with seldom_collecting():
            return self._run()

    def _run(self) -> Verdict:
        verdict = Verdict(self.world.seed)
        try:
            self._run_for(self._seconds)
            self._settle()
            for group in self.groups:
                self._settle_jobs(group)
            for program in self.programs:
                self.oracle.check_answered(program.unanswered.values())
            self.oracle.check_all()
            for group in self.groups:
                group.oracle.check_all()
            for journal in self.journals:
                self._settle_journal(journal)
                journal.check()
            self._raise_violation()
            self._let_rot()
        except Exception as error:  # of the code that is simulated, too
            verdict.violation = f"{type(error).__name__}: {error}"
        finally:
            verdict.history, self.world.history = self.world.history or [], None
            self.discard()
        verdict.simulated_s = self.world.now_ns / NS_PER_S
        verdict.steps = self.world.steps
        verdict.operations = len(self.oracle.operations)
        verdict.jobs = sum(len(group.oracle.jobs) for group in self.groups)
        verdict.kinds, verdict.faults = self.faults.kinds, self.faults.counts
        verdict.phases = self.phases.counts
        return verdict

    def discard(self) -> None:
        """End all processes, so that nothing of the world is held any longer."""
        for process in self._clients():
            process.kill()
        self.server.kill()
        self.server.discard()

    def _clients(self) -> list[Victim]:
        return [*self.programs, *self.workers]

    def _run_for(self, seconds: float) -> None:
        self.world.run_until(self.oracle.has_violation, seconds)
        self._raise_violation()

    def _raise_violation(self) -> None:
        if self.oracle.violation is not None:
            raise self.oracle.violation

    def _settle(self) -> None:
        """End faults and requests, and let all that is due come."""
        self.faults.stop()
        for program in self.programs:
            program.is_busy = False
            if not program.running:
                program.start()
        for group in self.groups:
            group.settle()
        # By then the server runs, and what a start has lost of the time is known.
        self._run_for(self._asleep_s() + SETTLE_S)
        late_s = self.server.lost_time_ns / NS_PER_S
        self._run_for(self.workload.longest_timeout + late_s)

    def _asleep_s(self) -> float:
        """Return for how many seconds a machine is still suspended."""
        machines = [self.server.machine, *(client.machine for client in self._clients())]
        awake_at_ns = max(machine.awake_at_ns for machine in machines)
        return max(0, awake_at_ns - self.world.now_ns) / NS_PER_S

    def _settle_jobs(self, group: WorkerGroup) -> None:
        """Have jobs done while nothing is wrong, and see which ones are dead."""
        group.schedule_calm_jobs()
        self._run_for(JOBS_SETTLE_S)
        group.program.read_dead()
        self._run_for(RECOVERY_NS / NS_PER_S)

    def _settle_journal(self, journal: WorldJournal) -> None:
        """Have the journal given what it may have missed, by the next process; and written.

        The trouble of one that has failed lasts until outcomes would be deleted.
        """
        self._run_for(TROUBLE_S)
        journal.may_fail = False
        self.server.kill()
        self._run_for(JOURNAL_SETTLE_S)

    def _let_rot(self) -> None:
        """Let the database rot, in some worlds: nothing else can be judged after that."""
        if self._may_rot and self.world.seed % 16 in ROT_SEEDS:
            for process in self._clients():
                process.kill()
            self.faults.counts["bits_rot"] = 1
            Rot(self.world, self.server).happen()


def simulate(seed: int, settings: Settings | None = None, *, with_history: bool = False) -> Verdict:
    """Run a seed. The log of the service is turned off meanwhile."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return Simulation(seed, settings or Settings(), with_history=with_history).run()
    finally:
        logging.disable(before)
