"""ModelStamp: the millisecond that the next change has.

It follows the server's clock. In a trace the events of a millisecond come after its submissions,
and before its expirations; of several events of one key the longest hold counts. So what comes in
another order, in one millisecond, gets the next one.
"""


class ModelStamp:
    """The present stamp, and what has it already."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._events: dict[str, bool] = {}  # key -> whether one of them was a failure
        self._expired: set[str] = set()  # keys of operations that expired at this very deadline

    def follow(self, ms: int) -> None:
        """Move to a time, unless the stamp is ahead of it."""
        if ms > self.now_ms:
            self.now_ms = ms
            self._events.clear()
            self._expired.clear()

    def restart(self, ms: int) -> None:
        """Begin anew, at the time that a new process begins with."""
        self.now_ms = -1
        self.follow(ms)

    def begin_next(self) -> None:
        """Move to the next millisecond, ahead of the clock."""
        self.follow(self.now_ms + 1)

    def open_for(self, key: str) -> None:
        """Make room for an event: it cannot have the millisecond of an expiry before it."""
        if key in self._expired:
            self.begin_next()

    def note_event(self, key: str, *, failed: bool) -> None:
        """Note that an event of a key has changed something."""
        self._events[key] = self._events.get(key, False) or failed

    def note_expiry(self, keys: tuple[str, ...]) -> None:
        """Note that an operation has expired at this stamp."""
        self._expired.update(keys)

    def has_event(self, key: str) -> bool:
        """Whether an event of a key has this stamp."""
        return key in self._events

    def has_failure(self, key: str) -> bool:
        """Whether a failure of a key has this stamp."""
        return self._events.get(key, False)
