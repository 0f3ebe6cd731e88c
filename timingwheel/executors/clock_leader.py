"""ClockLeader: lets the leader of a `WorkerExecutor` advance a timer's clock.

In the place of a `Reaper`, where the executor is the timer's own: the thread that the clock wakes
then starts what is due itself, and a slow task does not hold up the clock.
"""

from timingwheel.executors.worker import WorkerExecutor
from timingwheel.reaper import Advanceable, Waiter


class ClockLeader:
    """The leader of a `WorkerExecutor` in the place of a timer's `Reaper`."""

    def __init__(
        self, executor: WorkerExecutor, timer: Advanceable, waiter: Waiter, name: str
    ) -> None:
        self._executor = executor
        self._timer = timer
        self._waiter = waiter
        self._name = name
        self.started: bool = False

    def start(self) -> None:
        """Let the leader advance the timer. An interrupted start leaves no thread behind."""
        try:
            self._executor.lead_clock(self._timer, self._waiter, self._name)
            self.started = True
        except BaseException:
            self._executor.leave_clock(self._timer)
            raise

    def join(self, timeout: float | None) -> None:
        """Wait for the end of all workers; does nothing in one of them."""
        self._executor.join(timeout)

    def ended(self) -> bool:
        """Return whether the timer is advanced no more."""
        return not self._executor.leads(self._timer)
