"""ArrivalLimit: tells when too many new connections keep the network thread busy.

A socket reads from its connections by turns. So what one sends waits for a frame of each other one
that has some, also of those that their peers have closed meanwhile: a peer that comes anew a
thousand times a second keeps all others waiting, however little it asks for. So while the network
thread cannot keep up, few connections are let in. Where it can, any number may come, as after a
restart. Used by the network thread alone.
"""

from collections.abc import Callable
from typing import Final

#: The network thread cannot keep up if it has had frames to read for so many seconds.
BEHIND_S: Final = 0.05
#: Then so many connections may come in a window of so many seconds.
MAX_ARRIVALS: Final = 30
WINDOW_S: Final = 1.0


class ArrivalLimit:
    """`now`: the monotonic clock, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._caught_up = self._window = now()
        self._before = 0  # arrivals before the window

    def is_exceeded(self, arrivals: int, *, behind: bool) -> bool:
        """Tell whether to let no more in for now.

        `arrivals`: how many have come so far; `behind`: whether the thread has frames to read.
        """
        now = self._now()
        if not behind:
            self._caught_up = now
        if now >= self._window + WINDOW_S:
            self._window, self._before = now, arrivals
        return now - self._caught_up > BEHIND_S and arrivals - self._before > MAX_ARRIVALS
