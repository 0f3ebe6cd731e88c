"""Policy: how long a thread goes on, and which one is next: drawn anew for each seed.

Some bugs need many changes of thread, some need a thread that stands still at one step while the
others run far. So some seeds change often and pick any thread, and some give threads priorities
that change now and then ("A randomized scheduler with probabilistic guarantees of finding bugs",
Burckhardt and others, 2010).
"""

import random
from collections.abc import Sequence
from typing import Final

from tests.simulation.inprocess.task import Task

#: Where threads may be changed, beside the primitives of `threading`.
LINES: Final = "lines"
OPCODES: Final = "opcodes"
NOWHERE: Final = "nowhere"


class Policy:
    """The decisions of one world."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        #: How fine the steps are.
        self.traces: str = chance.choice((LINES, LINES, LINES, OPCODES, NOWHERE))
        means = (1.0, 3.0) if self.traces == NOWHERE else (3.0, 10.0, 40.0, 200.0)
        self._mean = chance.choice(means)  # of the steps between two decisions
        self._has_priorities = chance.random() < 0.5
        self._lowest = 0.0
        #: How often time passes although a thread could go on, as on a busy machine.
        self.slowness: float = chance.choice((0.0, 0.0, 0.01, 0.1))

    def steps(self) -> int:
        """Return for how many steps a thread goes on before the next decision."""
        return 1 + int(self._chance.expovariate(1.0 / self._mean))

    def is_slow(self) -> bool:
        """Whether time passes now, although a thread could go on."""
        return self.slowness > 0.0 and self._chance.random() < self.slowness

    def welcome(self, task: Task) -> None:
        """Give a new thread its priority."""
        task.priority = self._chance.random()

    def interrupt(self, task: Task) -> None:
        """Let a thread that went on for long enough come last from now on."""
        self._lowest -= 1.0
        task.priority = self._lowest

    def pick(self, able: Sequence[Task]) -> Task:
        """Return the thread that goes on, one of those that can."""
        if self._has_priorities:
            return max(able, key=_priority)
        return able[self._chance.randrange(len(able))]


def _priority(task: Task) -> float:
    return task.priority
