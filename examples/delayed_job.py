"""Delayed jobs: something happens after a while, unless something else happens before."""

import queue
import threading

from timingwheel import Timer, TimerTask

REMIND_AFTER_S = 2.0  # a quarter of an hour in production


class Reminders:
    """Reminds of orders that are not paid in time. Any thread may call any method."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._jobs: dict[int, TimerTask] = {}
        self.sent = queue.SimpleQueue[str]()

    def order_placed(self, order: int) -> None:
        """Remind of it later."""
        self._jobs[order] = self._timer.schedule(REMIND_AFTER_S, self._remind, order)

    def order_paid(self, order: int) -> bool:
        """Call the reminder off; False if it has been sent."""
        job = self._jobs.pop(order, None)
        return job is not None and job.cancel()

    def order_changed(self, order: int) -> None:
        """Let the time count anew, unless the reminder has been sent."""
        if job := self._jobs.get(order):
            self._timer.reschedule(job, REMIND_AFTER_S)

    def _remind(self, order: int) -> None:
        self._jobs.pop(order, None)  # unpaid orders would stay for ever
        self.sent.put(f"order {order} is not paid yet")


def main() -> None:
    """Place three orders; the second is paid in time, the first changed."""
    with Timer("jobs") as timer:
        reminders = Reminders(timer)
        for order in (1, 2, 3):
            reminders.order_placed(order)
        print("called off:", reminders.order_paid(2))
        reminders.order_changed(1)

        # And jobs that repeat: at a fixed rate, until they are cancelled.
        ticks = threading.Semaphore(0)
        ticker = timer.every(0.05, ticks.release, first=0)
        for _ in range(6):
            ticks.acquire()
        ticker.cancel()
        print(*sorted(reminders.sent.get() for _ in range(2)), sep="\n")
    print("too late:", not reminders.order_paid(1))


if __name__ == "__main__":
    main()
