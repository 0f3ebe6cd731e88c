"""WaitModel: what waits, extends, holds and fails, so simply that it is obviously right.

For state machines that drive a purgatory, a server or an AsyncPurgatory: call the same method of
the model and of the system, and compare what they return, and each `Wait` with its future. Times
are whole milliseconds; nothing happens by itself: `advance` moves the time and ends what is due.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Wait:
    """One operation: what it waits for, and how it ended (`outcome` is None while it waits)."""

    keys: tuple[Hashable, ...]
    need: int
    submitted_ms: int
    deadline_ms: int
    outcome: str | None = None
    by_key: Hashable = None
    error: object = None
    values: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def result(self) -> Any:
        """The value, or with need > 1 key -> value."""
        return self.values if self.need > 1 else self.values[self.by_key]

    def count(self, key: Hashable, value: object) -> bool:
        """Count a key; False if that changes nothing."""
        if self.outcome is not None or key not in self.keys or key in self.values:
            return False
        self.values[key] = value
        if len(self.values) == self.need:
            self.outcome, self.by_key = "completed", key
        return True


@dataclass
class Held:
    """An event that counts for operations submitted until `until_ms`, and for `left` of them."""

    value: object
    until_ms: int
    left: int | None


class WaitModel:
    """Searches all operations each time. `waits`: all of them, in the order of submission.

    An operation expires `grace_ms` after its deadline: 1 where it still completes in that
    millisecond.
    """

    def __init__(self, grace_ms: int = 0) -> None:
        self.now_ms = 0
        self.grace_ms = grace_ms
        self.waits: list[Wait] = []
        self._held: dict[Hashable, Held] = {}  # in the order in which they came

    def pending(self) -> list[Wait]:
        """Return what waits, the longest waiting first."""
        return [wait for wait in self.waits if wait.outcome is None]

    def held(self) -> dict[Hashable, Held]:
        """Return what is held now."""
        return {key: held for key, held in self._held.items() if held.until_ms >= self.now_ms}

    def count(self, outcome: str) -> int:
        """Return how many operations ended so."""
        return sum(wait.outcome == outcome for wait in self.waits)

    def submit(self, keys: tuple[Hashable, ...], timeout_ms: int, need: int = 1) -> Wait:
        """Wait for `need` of the keys; what is held counts at once."""
        wait = Wait(tuple(dict.fromkeys(keys)), need, self.now_ms, self.now_ms + timeout_ms)
        self.waits.append(wait)
        for key, held in self.held().items():
            if wait.count(key, held.value) and held.left is not None:
                held.left -= 1
                if not held.left:
                    del self._held[key]
        return wait

    def extend(self, wait: Wait, timeout_ms: int) -> bool:
        """Let the timeout count anew; False if it has ended."""
        if wait.outcome is None:
            wait.deadline_ms = self.now_ms + timeout_ms
            return True
        return False

    def complete(
        self, key: Hashable, value: object = None, limit: int | None = None, hold_ms: int = 0
    ) -> int:
        """Complete a key; how many operations that completed."""
        self._held.pop(key, None)
        before, left = self.count("completed"), limit
        for wait in self.pending():
            if left != 0 and wait.count(key, value) and left is not None:
                left -= 1
        if hold_ms and left != 0:
            self._held[key] = Held(value, self.now_ms + hold_ms, left)
        return self.count("completed") - before

    def fail(self, key: Hashable, error: object) -> int:
        """Fail a key; how many operations that ended."""
        failed = [w for w in self.pending() if key in w.keys and key not in w.values]
        for wait in failed:
            wait.outcome, wait.error = "failed", error
        return len(failed)

    def cancel(self, wait: Wait) -> bool:
        """Cancel one; False if it has ended."""
        return self._end(wait, "cancelled")

    def expire(self, wait: Wait) -> bool:
        """Let one expire; False if it has ended."""
        return self._end(wait, "expired")

    def cancel_for_key(self, key: Hashable) -> list[Wait]:
        """Cancel what waits for a key, and return it."""
        return [wait for wait in self.pending() if key in wait.keys and self.cancel(wait)]

    def advance(self, ms: int, *, expires: bool = True) -> None:
        """Move the time, and end what is due; without `expires` that comes later."""
        self.now_ms += ms
        for wait in self.pending():
            if expires:
                self.expire_if_due(wait)

    def expire_if_due(self, wait: Wait) -> None:
        """Let one expire if its time is over."""
        if wait.deadline_ms + self.grace_ms <= self.now_ms:
            self.expire(wait)

    def _end(self, wait: Wait, outcome: str) -> bool:
        if wait.outcome is not None:
            return False
        wait.outcome = outcome
        return True
