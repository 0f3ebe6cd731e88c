"""WritePace: a journal writes a little, and leaves the interpreter to others for a while.

Written at once, the rows of a file take a quarter of a second of the interpreter. For so long other
threads, such as those of a server, would have to compete for it at each of their steps.
"""

import time
from collections.abc import Callable
from typing import Final

#: Rows after which there is a pause.
PORTION: Final = 1024
# A pause is so many times as long as the work before it, and all of one write so many seconds: a
# journal that has much to write should not fall behind.
_PAUSE_SHARE: Final = 3
_ALL_PAUSES_S: Final = 1.0


class WritePace:
    """Used by the journal's thread. `is_urgent` tells to make no pauses."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._left_s = 0.0  # of the pauses of this write
        self._resumed_at = 0.0
        self.is_urgent: Callable[[], bool] = _never

    def begin(self) -> None:
        """Note that a write begins."""
        self._left_s = _ALL_PAUSES_S
        self._resumed_at = self._now()

    def pause(self) -> None:
        """Sleep for a while, unless the write is urgent or has slept enough."""
        seconds = min(_PAUSE_SHARE * (self._now() - self._resumed_at), self._left_s)
        if seconds > 0 and not self.is_urgent():
            self._left_s -= seconds
            self._sleep(seconds)
        self._resumed_at = self._now()


def _never() -> bool:
    return False
