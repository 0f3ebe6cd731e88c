"""WorldJournal: the journal of a world's server, for all its processes, and the check of it."""

import random
from typing import Final

from purgatory.testing.world.process import Process
from tests.simulation.journal.journal_directory import JournalDirectory
from tests.simulation.journal.journal_oracle import JournalOracle
from tests.simulation.journal.simulated_sink import SimulatedSink
from tests.simulation.oracle import Oracle

# How many of the processes have a journal that fails.
_FAILING_SHARE: Final = 0.4


class WorldJournal:
    """One directory, and a sink for each process."""

    def __init__(self, seed: int, oracle: Oracle) -> None:
        self._chance = random.Random(f"journal {seed}")
        self._oracle = oracle
        self._directory = JournalDirectory(oracle.report)
        #: Whether journals fail now and then.
        self.may_fail: bool = True

    def make_sink(self, process: Process) -> SimulatedSink:
        """Make the sink of a process."""
        fails = self.may_fail and self._chance.random() < _FAILING_SHARE
        return SimulatedSink(process, self._directory, self._chance, fails=fails)

    def check(self) -> None:
        """Check what is in it, when it has all."""
        oracle = JournalOracle(self._directory, self._oracle.report)
        oracle.check(self._oracle.operations.values(), self._oracle.events.values())
