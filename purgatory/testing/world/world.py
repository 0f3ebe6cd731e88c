"""World: simulated time and its events, in an order decided by the seed.

Nothing waits: time jumps from one event to the next. For a single thread.
"""

import heapq
import random
from collections.abc import Callable
from typing import Final

# Bound once: compiled, that saves look-ups for each event.
_push: Final = heapq.heappush
_pop: Final = heapq.heappop

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


class World:
    """Time in nanoseconds since the world began, events to come, and the one source of chance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random: random.Random = random.Random(seed)
        self.now_ns: int = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []  # a heap
        self._planned = 0
        self.steps: int = 0  # past events
        #: What has happened, a line each, if it is to be told; see `note`.
        self.history: list[str] | None = None

    @property
    def is_told(self) -> bool:
        """Whether a history exists: lines that are made often are made only then."""
        return self.history is not None

    def note(self, what: str) -> None:
        """Add a line to the history, with the time."""
        if self.history is not None:
            self.history.append(f"{self.now_ns / NS_PER_S:12.6f}  {what}")

    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Have a call made so many nanoseconds from now; calls of a single moment in this order."""
        self.at(self.now_ns + delay_ns, call)

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Have a call made at a time, which may be now."""
        self._planned += 1
        _push(self._events, (at_ns, self._planned, call))

    def lose_time(self, delay_ns: int) -> None:
        """Let time pass within an event: events due meanwhile happen late."""
        self.now_ns += delay_ns

    def step(self) -> bool:
        """Let the next event happen; False if none exists."""
        if not self._events:
            return False
        at_ns, _, call = _pop(self._events)
        self.now_ns = max(self.now_ns, at_ns)
        self.steps += 1
        call()
        return True

    def run_until(self, done: Callable[[], object], seconds: float) -> bool:
        """Let events happen until `done`, for so many seconds at most; return whether `done`."""
        end_ns = self.now_ns + int(seconds * NS_PER_S)
        events, step = self._events, self.step
        while not done():
            if not events or events[0][0] > end_ns:
                self.now_ns = max(self.now_ns, end_ns)
                return bool(done())
            step()
        return True

    def run(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.run_until(lambda: False, seconds)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def spread(self, low: float, high: float) -> float:
        """Return a number between these, of which each order of magnitude is as likely."""
        return spread(self.random, low, high)


def spread(chance: random.Random, low: float, high: float) -> float:
    """Return a number between these, of which each order of magnitude is as likely."""
    return float(low * (high / low) ** chance.random())
