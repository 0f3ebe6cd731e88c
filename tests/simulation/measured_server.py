"""MeasuredServer: the server of a simulation, and by how much its clock is wrong."""

from collections.abc import Sequence

from purgatory.testing.world.machine import EPOCH_NS, Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ServerHost, ServerProcess
from purgatory.testing.world.world import NS_PER_MS
from tests.simulation.journal.simulated_sink import SimulatedSink
from tests.simulation.journal.world_journal import WorldJournal
from tests.simulation.model.model_check import ModelCheck
from tests.simulation.model.world_model import WorldModel
from tests.simulation.troubles import Troubles


class MeasuredServer(ServerHost):
    """A server whose absences are `troubles`; `journals` has its journal, or nothing.

    `model` executes the same requests. `portion`: see `ServerHost`.
    """

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        troubles: Troubles,
        journals: Sequence[WorldJournal] = (),
        model: WorldModel | None = None,
        portion: int = 0,
    ) -> None:
        self.portion = portion
        self._model = model
        self._troubles = troubles
        self._journals = journals
        # What errors the clock may have had by which the times on disk are meant.
        self._stored_errors_ms = {0}
        #: By how much deadlines may be wrong: the machine was booted, and its wall clock set.
        self.lost_time_ns: int = 0
        self._largest_error_ms = 0  # of all of them
        super().__init__(machine, network)

    def make_sink(self, process: Process) -> SimulatedSink | None:
        """See `ServerHost`."""
        return self._journals[0].make_sink(process) if self._journals else None

    def make_observer(self, process: Process) -> ModelCheck | None:
        """See `ServerHost`."""
        return None if self._model is None else self._model.observe(process)

    def note_trouble(self, lasting_ns: int) -> None:
        """See `ServerHost`."""
        self._troubles.add(lasting_ns)

    def note_start(self, process: ServerProcess) -> None:
        """Note by how much the deadlines from before are wrong by the clock of this run."""
        clock = process.parts.store_loop.clock
        moved = {before_ms + clock.shift_ms for before_ms in self._stored_errors_ms}
        if not process.alive:  # killed while it started: the times were moved on disk, or not
            self._stored_errors_ms |= moved
            return
        if self._model is not None:
            self._model.started(process.parts.store_loop.state)
        error_ms = clock.now_ms() - self._true_ms()
        lost_ms = max(abs(error_ms - moved_ms) for moved_ms in moved)
        # Each of the errors is cut off to whole milliseconds.
        self.lost_time_ns += (lost_ms + 1 if lost_ms else 0) * NS_PER_MS
        self._stored_errors_ms = {error_ms}
        self._largest_error_ms = max(abs(error_ms), self._largest_error_ms)

    def latest_now_ms(self) -> int:
        """Return the highest reading that a server's clock may have had so far, Unix ms."""
        return self._true_ms() + self._largest_error_ms

    def _true_ms(self) -> int:
        return (EPOCH_NS + self.machine.world.now_ns) // NS_PER_MS
