"""RetryDelays: for how long a job is to wait after an attempt that has failed."""

from typing import NamedTuple


class RetryDelays(NamedTuple):
    """Seconds after the first attempt, and at most: each delay is twice the one before."""

    first: float
    longest: float

    def bounds_ms(self, attempt: int) -> tuple[int, int]:
        """Return the shortest and the longest delay after an attempt, in whole milliseconds.

        A random part of up to a half is left out.
        """
        seconds = min(self.longest, self.first * 2 ** (attempt - 1))
        return int(1000 * seconds * 0.5), int(1000 * seconds)
