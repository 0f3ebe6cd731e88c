"""ReplaySummary: how many operations of a kind ended how, and how long they waited."""

from dataclasses import dataclass, field

from purgatory.replay.quantiles import WaitQuantiles
from purgatory.trace import COMPLETED, EXPIRED


@dataclass(slots=True)
class ReplaySummary:
    """Counts of the operations of one kind; `waits` are those of all that ended."""

    operations: int = 0
    completed: int = 0
    expired: int = 0
    failed: int = 0
    waits: WaitQuantiles = field(default_factory=WaitQuantiles)

    @property
    def pending(self) -> int:
        """The operations that were still waiting when the replay stopped."""
        return self.operations - self.ended

    @property
    def ended(self) -> int:
        """The operations that have an outcome."""
        return self.completed + self.failed + self.expired

    def count(self, outcome: str, waited_ms: int, number: int) -> None:
        """Count operations that ended the same way after the same time."""
        if outcome == COMPLETED:
            self.completed += number
        elif outcome == EXPIRED:
            self.expired += number
        else:
            self.failed += number
        self.waits.count(waited_ms, number)

    def add(self, other: "ReplaySummary") -> None:
        """Add the counts of another summary."""
        self.operations += other.operations
        self.completed += other.completed
        self.expired += other.expired
        self.failed += other.failed
        self.waits.add(other.waits)
