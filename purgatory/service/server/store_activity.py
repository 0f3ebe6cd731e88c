"""StoreActivity: the work and the commits of the store loop, as plain numbers.

The thread that runs the transaction writes; any thread reads.
"""

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

#: Upper bounds in seconds of the histogram of commits; one more bucket has longer ones.
COMMIT_BOUNDS_S: Final = (
    0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0
)  # fmt: skip
NS_PER_S: Final = 1_000_000_000


class StoreActivity:
    """Moments are nanoseconds of `now_ns`, a monotonic clock; 0: none."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.now_ns: Callable[[], int] = now_ns
        self.step_since_ns: int = 0  # when the present transaction began
        self.commit_since_ns: int = 0  # when the present commit began
        self.committed_ns: int = now_ns()  # the last success; at first, the start
        self.failing_since_ns: int = 0  # the first of `failures_in_a_row`
        self.failures_in_a_row: int = 0
        self.error: str = ""  # of the last commit that failed
        #: When the oldest outcome not on disk is due, by the server's clock; 0: none.
        self.deadline_ms: int = 0
        # Since the start.
        self.commits: int = 0
        self.last_commit_s: float = 0.0  # of the last success
        self.commit_seconds: float = 0.0
        self.commit_failures: int = 0
        self.commit_counts: list[int] = [0] * (len(COMMIT_BOUNDS_S) + 1)

    def commit_error(self) -> str:
        """Return why commits fail; empty while they succeed."""
        return self.error if self.failures_in_a_row else ""

    def commit_succeeded(self, *, is_well: bool = True) -> None:
        """Note a commit. `is_well`: larger commits would succeed, too."""
        now_ns = self.now_ns()
        seconds = (now_ns - self.commit_since_ns) / NS_PER_S
        self.commit_since_ns = 0
        if is_well:
            self.failing_since_ns = self.failures_in_a_row = 0
        self.committed_ns = now_ns
        self.commits += 1
        self.last_commit_s = seconds
        self.commit_seconds += seconds
        self.commit_counts[bisect_left(COMMIT_BOUNDS_S, seconds)] += 1

    def commit_failed(self, error: str) -> None:
        """Note a refused commit."""
        self.error = error  # before the moment, which readers read first
        self.failures_in_a_row += 1
        self.commit_failures += 1
        if not self.failing_since_ns:
            self.failing_since_ns = self.commit_since_ns
        self.commit_since_ns = 0
