"""JobTimings: times and ends of attempts and jobs, by kind, since the start of a server.

The store thread adds plain integers, any thread reads.
"""

from bisect import bisect_left
from typing import Final

from purgatory.service.job_messages import MOST_KINDS, OTHER
from purgatory.service.server.records.job_record import CANCELLED, DEAD, DONE

#: Upper bounds of both histograms; one more bucket has longer times.
TIMING_BOUNDS_MS: Final = (
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 1_800_000,
    7_200_000,
)  # fmt: skip
#: The states in which jobs end, as in `KindTimings.ended`.
END_STATES: Final = (DONE, DEAD, CANCELLED)


class KindTimings:
    """The figures of a kind.

    `queued`, `ran`: histograms of ended attempts, by the time ready before and the time of the run;
    `queued_ms`, `ran_ms`: the sums. `ended`: jobs by state.
    """

    def __init__(self) -> None:
        self.queued: list[int] = [0] * (len(TIMING_BOUNDS_MS) + 1)
        self.ran: list[int] = [0] * (len(TIMING_BOUNDS_MS) + 1)
        self.queued_ms: int = 0
        self.ran_ms: int = 0
        self.failed_attempts: int = 0
        self.ended: list[int] = [0] * len(END_STATES)

    @property
    def attempts(self) -> int:
        """How many attempts have ended."""
        return sum(self.ran)


class JobTimings:
    """The figures of the first MOST_KINDS kinds, as no counter may go back, and of all others."""

    def __init__(self) -> None:
        self.by_kind: dict[str, KindTimings] = {}

    def of(self, kind: str) -> KindTimings:
        """Return the figures to which a kind adds."""
        found = self.by_kind.get(kind)
        if found is None:
            if len(self.by_kind) >= MOST_KINDS:
                kind = OTHER
            found = self.by_kind.setdefault(kind, KindTimings())
        return found

    def end_attempt(self, kind: str, queued_ms: int, ran_ms: int, *, failed: bool) -> None:
        """Add an ended attempt; times in milliseconds."""
        timings = self.of(kind)
        queued_ms, ran_ms = max(0, queued_ms), max(0, ran_ms)
        timings.queued[bisect_left(TIMING_BOUNDS_MS, queued_ms)] += 1
        timings.queued_ms += queued_ms
        timings.ran[bisect_left(TIMING_BOUNDS_MS, ran_ms)] += 1
        timings.ran_ms += ran_ms
        timings.failed_attempts += failed

    def end_job(self, kind: str, state: int) -> None:
        """Add an ended job."""
        self.of(kind).ended[state - DONE] += 1
