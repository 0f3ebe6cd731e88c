"""Simulation: a world of steered jobs, from a seed to a verdict."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.collector import seldom_collecting
from tests.simulation.drifting_machine import DriftingMachine
from tests.simulation.errors import Violation
from tests.simulation.faults import Faults
from tests.simulation.measured_server import MeasuredServer
from tests.simulation.simulation import Verdict
from tests.simulation.steering.forgotten_ids import check_forgotten
from tests.simulation.steering.job_book import JobBook
from tests.simulation.steering.kind_rules import KindRules
from tests.simulation.steering.lease_book import LeaseBook
from tests.simulation.steering.lease_program import LeaseProgram
from tests.simulation.steering.steered_job import SteeredJob
from tests.simulation.steering.steered_worker import SteeredWorker
from tests.simulation.steering.steered_workload import draw_faults, draw_workload
from tests.simulation.steering.steering_program import SteeringProgram
from tests.simulation.troubles import Troubles

#: The client name of the program and its workers.
GROUP = "jobs"
# Seconds in which all jobs end, once faults have ended; and between two looks.
_SETTLE_S = 400.0
_LOOK_S = 10.0
# And seconds in which each program that waits for a lease has had it.
_PATIENCE_S = 150.0


@dataclass(frozen=True, slots=True)
class SteeredSettings:
    """Of a world, beside its seed; `kinds` of faults: the seed draws them if None."""

    seconds: float = 60.0
    kinds: tuple[str, ...] | None = None


class SteeredWorld:
    """The world of a seed."""

    def __init__(self, seed: int, settings: SteeredSettings, *, with_history: bool = False) -> None:
        self.world = World(seed)
        if with_history:
            self.world.history = []
        self._seconds = settings.seconds
        self._violation = ""
        self._network = SimulatedNetwork(self.world)
        troubles = Troubles(self.world)
        self._server = MeasuredServer(Machine(self.world, "server"), self._network, troubles)
        self._workload = draw_workload(self.world)
        drawn = draw_faults(self.world)
        kinds = drawn if settings.kinds is None else settings.kinds
        rules = KindRules(self.world, self._report)
        self._book = JobBook(self.world, self._report, rules)
        self._book.lost_time_ns = lambda: self._server.lost_time_ns
        self._workers = [
            SteeredWorker(
                DriftingMachine(self.world, f"worker-{n}"),
                self._network,
                GROUP,
                self._book,
                self._workload,
            )
            for n in range(self._workload.workers)
        ]
        self._program = SteeringProgram(
            Machine(self.world, GROUP), self._network, GROUP, self._book, self._workload
        )
        self.leases = LeaseBook(self.world, self._report, rules)
        self.leases.lost_time_ns = lambda: self._server.lost_time_ns
        self._lease_programs = [
            LeaseProgram(DriftingMachine(self.world, f"locks-{n}"), self._network, self.leases)
            for n in range(self._workload.lease_programs)
        ]
        self._faults = Faults(
            self.world,
            self._network,
            self._server,
            self._lease_programs,
            self._workers,
            troubles,
            self._report,
            kinds,
            rules.note_fault,
            rules.note_held_up,
        )

    def _report(self, what: str) -> None:
        """Note the first broken promise; it is raised by the world's own loop."""
        self._violation = self._violation or f"at {self.world.now_ns / NS_PER_S:f} s: {what}"

    def run(self) -> Verdict:
        """Run it to the end, or to the first violation."""
        verdict = Verdict(self.world.seed)
        with seldom_collecting():
            try:
                self._run()
            except Exception as error:  # of the code that is simulated, too
                verdict.violation = f"{type(error).__name__}: {error}"
            finally:
                verdict.history, self.world.history = self.world.history or [], None
                self._discard()
        verdict.simulated_s = self.world.now_ns / NS_PER_S
        verdict.steps = self.world.steps
        verdict.jobs = len(self._book.jobs)
        verdict.kinds, verdict.faults = self._faults.kinds, self._faults.counts
        return verdict

    def _run(self) -> None:
        while self.world.now_ns < self._seconds * NS_PER_S:
            self._checked(self._program.act)
        self._faults.stop()
        self._workload.is_calm, self._workload.hanging = True, 0.0
        for worker in self._workers:
            worker.start_again()
        for program in self._lease_programs:
            program.is_calm = True
            program.start()
        self._checked(self._program.settle)
        end_ns = self.world.now_ns + int(_SETTLE_S * NS_PER_S)
        while left := self._left():
            if self.world.now_ns > end_ns + self._server.lost_time_ns:
                self._program.end(left)
            self.world.run(_LOOK_S)
        self._checked(self._program.check_counts)
        unique_for = self._workload.unique_for
        self._checked(lambda: check_forgotten(self.world, self._book, self._program, unique_for))
        if self._lease_programs:
            self.world.run(_PATIENCE_S)
            self._checked(self.leases.check_patience)

    def _left(self) -> list[SteeredJob]:
        found: list[SteeredJob] = []
        self._checked(lambda: found.extend(self._program.left()))
        return found

    def _checked(self, act: Callable[[], object]) -> None:
        act()
        if self._violation:
            raise Violation(self._violation)

    def _discard(self) -> None:
        for worker in self._workers:
            worker.kill()
        for program in self._lease_programs:
            program.kill()
        self._server.kill()
        self._server.discard()


def simulate(
    seed: int, settings: SteeredSettings | None = None, *, with_history: bool = False
) -> Verdict:
    """Run a seed. The log of the service is turned off meanwhile."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return SteeredWorld(seed, settings or SteeredSettings(), with_history=with_history).run()
    finally:
        logging.disable(before)
