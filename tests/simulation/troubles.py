"""Troubles: when something was wrong in a world. In between, what is due has to be told soon."""

from bisect import bisect_right
from typing import Final

from purgatory.testing.world.world import NS_PER_S, World

#: Nanoseconds after a fault until all sides have noticed it, and have a server and connections
#: again: mostly heartbeats. Longer where more has to be done again.
RECOVERY_NS: Final = 40 * NS_PER_S


class Troubles:
    """The times at which something was wrong, in order; from a fault on until it is mended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, lasting_ns: int = 0) -> None:
        """Note that something goes wrong, for so long and until the world has recovered."""
        start, end = self._world.now_ns, self._world.now_ns + lasting_ns + RECOVERY_NS
        if self._ends and start <= self._ends[-1]:
            self._ends[-1] = max(end, self._ends[-1])
        else:
            self._starts.append(start)
            self._ends.append(end)

    def end_of_calm(self, start_ns: int, lasting_ns: int) -> int:
        """Return when, after `start_ns`, nothing has been wrong for so long, in one piece."""
        calm_from = start_ns
        for n in range(bisect_right(self._ends, start_ns), len(self._ends)):
            if self._starts[n] - calm_from >= lasting_ns:
                break
            calm_from = self._ends[n]
        return calm_from + lasting_ns
