"""Pace: how many jobs a worker should have at a time.

One that has only as many as it runs waits for the server after each; one that has many holds up
jobs that another worker could run. So it has as many more as it runs in LOOK_AHEAD_S. Any thread;
figures may be a little off.
"""

from collections.abc import Callable
from typing import Final

#: Seconds of work that a worker has ahead.
LOOK_AHEAD_S: Final = 0.1
#: Jobs that it has for each handler that can run, at most.
MAX_AHEAD: Final = 32
#: Jobs that it has at all, at most: a server gives a worker no more.
MAX_ROOM: Final = 4096
# How much the last job counts for the average, and the seconds between two looks.
_WEIGHT: Final = 0.05
_LOOK_S: Final = 0.05


class Pace:
    """Of a worker that runs `concurrency` handlers at a time; `clock` returns seconds."""

    def __init__(self, concurrency: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._average = LOOK_AHEAD_S
        self._next_look = 0.0
        #: How many jobs to have.
        self.room: int = concurrency

    def add(self, seconds: float) -> None:
        """Note how long a handler ran."""
        self._average += _WEIGHT * (seconds - self._average)

    def look(self, running_seconds: float = 0.0) -> bool:
        """Bring `room` up to date; True if it has changed.

        `running_seconds`: for how long the oldest handler has been running.
        """
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_S
        self._average = max(self._average, min(running_seconds, LOOK_AHEAD_S))
        ahead = min(MAX_AHEAD, max(1, int(LOOK_AHEAD_S / max(self._average, 1e-6))))
        room = min(MAX_ROOM, self._concurrency * ahead)
        # Not for every little change.
        if self.room // 2 < room < self.room * 2 and room != self._concurrency:
            return False
        changed = room != self.room
        self.room = room
        return changed
