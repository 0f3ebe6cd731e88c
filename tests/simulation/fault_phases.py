"""FaultPhases: in which phase of the server each fault has happened.

A fault finds the server gone, starting, at rest, or in a transaction, before or in its commit; and
its jobs ready, leased or running. A kind of fault that never happens in a phase tests nothing of
that phase.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from purgatory.testing.world.server import ServerHost
from tests.simulation.model.world_model import WorldModel

TRANSACTION: Final = ("gone", "starting", "at rest", "in a transaction", "in a commit")
LEASES: Final = ("no job is due", "jobs wait", "jobs are leased", "handlers run")
PHASES: Final = TRANSACTION + LEASES


class FaultPhases:
    """Counts the faults of a world by kind and phase."""

    def __init__(self, server: ServerHost, model: WorldModel | None) -> None:
        self._server = server
        self._model = model
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str) -> None:
        """Note that a fault happens now."""
        for phase in self._phases():
            self.counts[kind, phase] += 1

    def _phases(self) -> Iterator[str]:
        process = self._server.process
        if process is None:
            yield "gone"
        elif not process.started:
            yield "starting"
        elif self._model is not None:
            yield self._model.transaction_phase
        if self._model is not None:
            yield self._model.lease_phase


def empty_cells(counts: Counter[tuple[str, str]], kinds: Iterable[str]) -> list[str]:
    """Return the phases in which a kind of fault has never happened, a line for each kind."""
    lines: list[str] = []
    for kind in kinds:
        missing = [phase for phase in PHASES if not counts[kind, phase]]
        if missing:
            lines.append(f"{kind.replace('_', ' ')}: {', '.join(missing)}")
    return lines
