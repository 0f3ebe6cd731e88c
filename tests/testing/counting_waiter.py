"""CountingWaiter: counts for a test how often a timer wakes what drives it."""


class CountingWaiter:
    """A waiter on which nobody sleeps; `wakes` counts."""

    def __init__(self):
        self.wakes = 0

    def wake(self):
        """Count."""
        self.wakes += 1

    def wait(self, timeout):
        """Refuse."""
        raise NotImplementedError
