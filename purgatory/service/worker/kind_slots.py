"""KindSlots: lets through as many jobs of a kind at a time as the kind's handler runs. Any thread.

Jobs beyond wait here, so they take no thread from the handlers of other kinds.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping

from purgatory.service.worker.held_jobs import HeldJob


class KindSlots:
    """Calls `start` with each job that may run; `limits`: kind -> how many run at a time."""

    def __init__(self, limits: Mapping[str, int], start: Callable[[HeldJob], None]) -> None:
        self._start = start
        self._free = dict(limits)
        self._waiting: dict[str, deque[HeldJob]] = {kind: deque() for kind in limits}
        self._lock = threading.Lock()

    def add(self, held: HeldJob) -> None:
        """Start a job, now or when a slot of its kind is free."""
        kind = held.leased.kind
        if kind in self._free:
            with self._lock:
                if not self._free[kind]:
                    self._waiting[kind].append(held)
                    return
                self._free[kind] -= 1
        self._start(held)

    def free(self, held: HeldJob) -> None:
        """Pass the slot of an ended job to the next job of its kind."""
        kind = held.leased.kind
        if kind not in self._free:
            return
        with self._lock:
            waiting = self._waiting[kind]
            if not waiting:
                self._free[kind] += 1
                return
            following = waiting.popleft()
        self._start(following)
