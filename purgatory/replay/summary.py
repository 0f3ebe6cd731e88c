"""ReplaySummary: the outcomes of a kind, and how long operations waited."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from purgatory.trace import COMPLETED, EXPIRED

# A wait below 10 seconds is exact, a longer one to 0.1 %.
SIGNIFICANT_DIGITS: Final = 4


class WaitQuantiles:
    """Counts durations in milliseconds, for quantiles. One thread at a time."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def count(self, waited_ms: int, number: int = 1) -> None:
        """Count equal waits, of 0 ms or more, rounded down to four digits."""
        unit = 10 ** max(0, len(str(waited_ms)) - SIGNIFICANT_DIGITS)
        self._counts[waited_ms - waited_ms % unit] += number

    def add(self, other: "WaitQuantiles") -> None:
        """Add the counts of another `WaitQuantiles`."""
        self._counts.update(other._counts)

    def quantile(self, share: float) -> int | None:
        """Return the least counted wait that a share (0 to 1) does not exceed; None: empty.

        By the nearest-rank method.
        """
        passed, least = 0, share * self._counts.total()
        for waited_ms in sorted(self._counts):
            passed += self._counts[waited_ms]
            if passed >= least:
                return waited_ms
        return None


@dataclass(slots=True)
class ReplaySummary:
    """Counts of the operations of one kind; `waits`: of all ended operations."""

    operations: int = 0
    completed: int = 0
    expired: int = 0
    failed: int = 0
    waits: WaitQuantiles = field(default_factory=WaitQuantiles)

    @property
    def pending(self) -> int:
        """The operations that waited when the replay stopped."""
        return self.operations - self.ended

    @property
    def ended(self) -> int:
        """The operations with an outcome."""
        return self.completed + self.failed + self.expired

    def count(self, outcome: str, waited_ms: int, number: int) -> None:
        """Count operations with the same outcome and wait."""
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
