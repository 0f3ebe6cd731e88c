"""RecordingWaiter: tells a test when a reaper goes to sleep, and for how long."""

import queue

from timingwheel.lowlevel import ConditionWaiter

HANG = 60  # seconds; a test that waits longer has failed


class RecordingWaiter(ConditionWaiter):
    """A `ConditionWaiter` that records each sleep when it begins."""

    def __init__(self):
        super().__init__()
        self._sleeps = queue.SimpleQueue()

    def wait(self, timeout):
        """Record the timeout, then sleep."""
        self._sleeps.put(timeout)
        super().wait(timeout)

    def next_sleep(self):
        """Return the timeout of the next sleep, as soon as it begins; None: until woken."""
        return self._sleeps.get(timeout=HANG)

    def after_a_step(self):
        """Return once the reaper has begun a step after this call, done it, and sleeps again."""
        while not self._sleeps.empty():
            self._sleeps.get()
        for _ in range(2):
            self.next_sleep()
