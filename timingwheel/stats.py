"""Statistics of a timer: frozen numbers, and the histogram of lateness. Any thread."""

from bisect import bisect_left
from dataclasses import dataclass

from _purgatory_cpython.locks import new_rlock
from timingwheel.clocks.duration import NS_PER_MS

# In milliseconds; one more count is for tasks beyond the last.
LATENESS_BOUNDS_MS = (0, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

_BOUNDS_NS = tuple(round(bound_ms * NS_PER_MS) for bound_ms in LATENESS_BOUNDS_MS)


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late tasks started: clock at the start minus due time.

    `counts[i]` tasks were at most `bounds_ms[i]` late and more than the bound before; the last
    count is for tasks beyond the last bound. `sum_ms` is their sum.
    """

    bounds_ms: tuple[float, ...]
    counts: tuple[int, ...]
    sum_ms: float


@dataclass(frozen=True, slots=True)
class TimerStats:
    """A timer's numbers at one moment.

    `pending`: tasks that have not started. `fired`: tasks that the executor has started.
    `cancelled`: tasks that will not run. `executor_backlog`: pending tasks that came due.
    `buckets_occupied`: buckets with tasks on each level, lowest first. `cascades`: buckets emptied
    into lower levels.
    """

    name: str
    pending: int
    fired: int
    cancelled: int
    executor_backlog: int
    buckets_occupied: tuple[int, ...]
    cascades: int
    lateness: Lateness


@dataclass(frozen=True, slots=True)
class WheelLevel:
    """A snapshot of one level of a timer's wheel.

    `tick_ns`: the length of a slot. `slots`: the tasks in each; a slot behind the hand is for
    the next time round. `hand`: the index of the present slot.
    """

    tick_ns: int
    slots: tuple[int, ...]
    hand: int

    @property
    def tick_ms(self) -> float:
        """See `tick_ns`."""
        return self.tick_ns / NS_PER_MS


class LatenessHistogram:
    """Counts lateness by batches. Any thread; its lock is a leaf lock."""

    def __init__(self) -> None:
        self._lock = new_rlock()
        self._counts = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        self._sum_ns = 0

    def observe(self, late_ns: int, count: int) -> None:
        """Add `count` tasks, each started `late_ns` after it was due."""
        late_ns = max(0, late_ns)
        with self._lock:
            self._counts[bisect_left(_BOUNDS_NS, late_ns)] += count
            self._sum_ns += late_ns * count

    def read(self) -> Lateness:
        """Return the present counts."""
        with self._lock:
            return Lateness(LATENESS_BOUNDS_MS, tuple(self._counts), self._sum_ns / NS_PER_MS)
