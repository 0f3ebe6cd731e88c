"""Stamp: the millisecond with which a server stamps what happens.

In a trace all events of a millisecond come after its submissions, and of several events of one key
the longest hold counts. A server handles requests one after the other. Where the two would differ,
the request gets the next millisecond: so a journal resolves to the outcomes that the server told.

An operation expires within the millisecond of its deadline, and in a trace the events of all of
that millisecond come before. So the expiry closes the millisecond for the keys of the operation: a
later event of one of them gets the next one.

Used by the store thread alone.
"""

from collections.abc import Iterable


class Stamp:
    """The present stamp, the keys with an event that has it, and those that get none any more."""

    __slots__ = ("_closed_keys", "_failed_keys", "_keys", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms: int = now_ms
        self._keys: set[str] = set()
        self._failed_keys: set[str] = set()
        self._closed_keys: set[str] = set()

    def follow(self, clock_ms: int) -> None:
        """Move to the clock's time, unless the stamp is ahead of it."""
        if clock_ms > self.now_ms:
            self.now_ms = clock_ms
            self._keys.clear()
            self._failed_keys.clear()
            self._closed_keys.clear()

    def begin_next(self) -> None:
        """Begin the next millisecond, ahead of the clock."""
        self.follow(self.now_ms + 1)

    def close(self, keys: Iterable[str]) -> None:
        """Let no event of these keys have this stamp from now on."""
        self._closed_keys.update(keys)

    def open_for(self, key: str) -> None:
        """Begin the next millisecond if an event of a key cannot have this stamp."""
        if key in self._closed_keys:
            self.begin_next()

    def add_event(self, key: str, *, failed: bool) -> None:
        """Note that an event of a key has this stamp."""
        self._keys.add(key)
        if failed:
            self._failed_keys.add(key)

    def has_event(self, key: str) -> bool:
        """Whether an event of a key has this stamp."""
        return key in self._keys

    def has_failure(self, key: str) -> bool:
        """Whether a failure of a key has this stamp."""
        return key in self._failed_keys

    def __bool__(self) -> bool:
        """Return whether any event has this stamp."""
        return bool(self._keys)
