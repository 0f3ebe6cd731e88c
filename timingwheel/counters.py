"""TimerCounters: how many tasks of a timer wait, and how many have ended."""

from _purgatory_cpython.mypyc_types import i64


class TimerCounters:
    """Counts of a timer's tasks. Guarded by its lock; statistics read without.

    `reaper_runs`: whether a reaper's thread holds the timer, and so all these tasks.
    """

    __slots__ = ("backlog", "cancelled", "fired", "pending", "reaper_runs")

    def __init__(self) -> None:
        self.pending: i64 = 0  # in the wheel
        self.backlog: i64 = 0  # dispatched to the executor, not started
        self.fired: i64 = 0
        self.cancelled: i64 = 0
        self.reaper_runs: bool = False
