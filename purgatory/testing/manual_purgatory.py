"""ManualPurgatory: a purgatory without threads, for tests."""

from datetime import timedelta
from typing import Any

from purgatory.core.purgatory import Purgatory
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import to_ns


class ManualPurgatory(Purgatory):
    """A purgatory without threads: callbacks run within `advance`, and within completing calls.

    Arguments as for `Purgatory`, without a timer. `clock` is its clock. Not thread-safe.
    """

    def __init__(self, name: str = "test", **options: Any) -> None:
        self.clock: ManualClock = ManualClock()
        timer = Timer(name, clock=self.clock, executor=InlineExecutor())
        super().__init__(name, timer=timer, **options)

    def start(self) -> None:
        """Do nothing: time passes in `advance`."""

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass: due operations expire, each at its time, and posted calls run.

        Raises ValueError for less than 0 seconds.
        """
        end_ns = self.clock.now_ns() + to_ns(seconds, "seconds")
        self.step()
        while (delay := self.timer.delay_to_next()) is not None:
            due_ns = self.clock.now_ns() + max(1, to_ns(delay))
            if due_ns > end_ns:
                break
            self._advance_to(due_ns)
        self._advance_to(end_ns)

    def _advance_to(self, now_ns: int) -> None:
        # A callback may have moved the clock further.
        self.clock.advance(max(0, now_ns - self.clock.now_ns()) / 1e9)
        self.timer.advance_clock()
        self.step()

    def close(self, *arguments: Any, **options: Any) -> None:
        """Close the timer, too; see `Purgatory`."""
        super().close(*arguments, **options)
        self.timer.close()
