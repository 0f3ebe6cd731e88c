"""World: simulated time and its events, in an order decided by the seed.

Time jumps from one event to the next. For a single thread.
"""

import heapq
import random
from collections.abc import Callable
from typing import Final

# Bound once, to save look-ups for each event.
_push: Final = heapq.heappush
_pop: Final = heapq.heappop

NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


class World:
    """Nanoseconds since the world began, events to come, and the only source of chance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random: random.Random = random.Random(seed)
        #: An event may put it forward: others happen late.
        self.now_ns: int = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []  # a heap
        self._planned = 0
        self.steps: int = 0  # past events
        #: Past events, a line each, if to be recorded; see `note`.
        self.history: list[str] | None = None

    def note(self, what: str) -> None:
        """Add a line with the time to the history."""
        if self.history is not None:
            self.history.append(f"{self.now_ns / NS_PER_S:12.6f}  {what}")

    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Plan a call so many nanoseconds from now, after the others of that moment."""
        self.at(self.now_ns + delay_ns, call)

    def at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Plan a call at a time, perhaps now."""
        self._planned += 1
        _push(self._events, (at_ns, self._planned, call))

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
        """Run events until `done`, for `seconds` at most; return whether `done`."""
        end_ns = self.now_ns + int(seconds * NS_PER_S)
        events, step = self._events, self.step
        while not done():
            if not events or events[0][0] > end_ns:
                self.now_ns = max(self.now_ns, end_ns)
                return bool(done())
            step()
        return True

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.run_until(lambda: False, seconds)

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def spread(self, low: float, high: float) -> float:
        """Return a number between these; each order of magnitude is as likely."""
        return spread(self.random, low, high)


def spread(chance: random.Random, low: float, high: float) -> float:
    """Return a number between these; each order of magnitude is as likely."""
    return float(low * (high / low) ** chance.random())
