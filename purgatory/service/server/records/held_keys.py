"""HeldKeys: a server's events that count for operations submitted later, too.

The open transaction changes them, see `KeyEvents`. Store thread alone; any thread may read the
length.
"""

from heapq import heapify, heappop, heappush

from purgatory.service.server.memory import held_bytes
from purgatory.service.store.rows import StoredEvent

# Stale entries of the heap, beside as many as held events.
_STALE_ENTRIES = 64


class HeldKeys:
    """Held events, one a key, and when each ends."""

    def __init__(self) -> None:
        self.by_key: dict[str, StoredEvent] = {}
        self.bytes: int = 0
        self._last_number = 0
        # Ends of events, and keys; stale unless the key's event ends then.
        self._ends: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self.by_key)

    def set(self, key: str, event: StoredEvent | None) -> None:
        """Hold an event for a key in place of another; None: hold none."""
        before = self.by_key.pop(key, None)
        if before is not None:
            self.bytes -= held_bytes(key, len(before.value))
        if event is not None:
            self.by_key[key] = event
            self.bytes += held_bytes(key, len(event.value))
            self._last_number = max(self._last_number, event.number)
            heappush(self._ends, (event.until_ms, key))
        if len(self._ends) > 2 * len(self.by_key) + _STALE_ENTRIES:
            self._ends = [(event.until_ms, key) for key, event in self.by_key.items()]
            heapify(self._ends)

    def next_number(self) -> int:
        """Return the number of a new event."""
        return self._last_number + 1

    def in_force(self, key: str, now_ms: int) -> StoredEvent | None:
        """Return a key's held event that still counts."""
        event = self.by_key.get(key)
        return event if event is not None and now_ms <= event.until_ms else None

    def first_ended(self, before_ms: int) -> str | None:
        """Return the key of the first event that ended before a time, if any."""
        end_ms = self.next_end_ms()
        return self._ends[0][1] if end_ms is not None and end_ms <= before_ms else None

    def next_end_ms(self) -> int | None:
        """Return when to release the next event, if any."""
        ends = self._ends
        while ends:
            until_ms, key = ends[0]
            event = self.by_key.get(key)
            if event is not None and event.until_ms == until_ms:
                return until_ms + 1
            heappop(ends)
        return None
