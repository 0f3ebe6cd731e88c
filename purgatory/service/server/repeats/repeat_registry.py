"""RepeatRegistry: all repeats of a server, and when to examine each.

Store thread alone; any thread may read the length.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from sortedcontainers import SortedDict

from purgatory.service.server.repeats.repeat_record import RepeatKey, RepeatRecord

# Stale entries of the heap, beside as many as repeats.
_STALE_ENTRIES: Final = 1000


class RepeatRegistry:
    """The repeats on disk, by client and name."""

    def __init__(self) -> None:
        self.by_key: SortedDict[RepeatKey, RepeatRecord] = SortedDict()
        #: By client.
        self.counts: dict[str, int] = {}
        self.bytes: int = 0
        # A heap: `wake_ms` and key; stale if the record has another time.
        self._wakes: list[tuple[int, RepeatKey]] = []

    def __len__(self) -> int:
        return len(self.by_key)

    def begin(self, now_ms: int) -> None:
        """Take the times until now as missed: no server ran."""
        for key, record in self.by_key.items():
            self.by_key[key] = record._replace(missed_until_ms=now_ms)

    def put(self, record: RepeatRecord) -> None:
        """Add a repeat, or replace it."""
        self.remove(record.key)
        self.by_key[record.key] = record
        self.counts[record.client] = self.counts.get(record.client, 0) + 1
        self.bytes += record.bytes
        self.watch(record)

    def remove(self, key: RepeatKey) -> None:
        """Remove a repeat, if it exists."""
        record = self.by_key.pop(key, None)
        if record is None:
            return
        self.bytes -= record.bytes
        self.counts[record.client] -= 1
        if not self.counts[record.client]:
            del self.counts[record.client]

    def watch(self, record: RepeatRecord) -> None:
        """Let `take_due` return a repeat at its time."""
        if not record.wake_ms:
            return
        heappush(self._wakes, (record.wake_ms, record.key))
        if len(self._wakes) > 2 * len(self.by_key) + _STALE_ENTRIES:
            self._wakes = [(one.wake_ms, one.key) for one in self.by_key.values() if one.wake_ms]
            heapify(self._wakes)

    def take_due(self, now_ms: int, most: int) -> list[RepeatRecord]:
        """Return repeats to examine, each once; `put` or `watch` adds them again."""
        found: dict[RepeatKey, RepeatRecord] = {}
        while len(found) < most and (wake_ms := self.next_wake_ms()) is not None:
            if wake_ms > now_ms:
                break
            key = heappop(self._wakes)[1]
            found[key] = self.by_key[key]
        return list(found.values())

    def next_wake_ms(self) -> int | None:
        """Return when to examine a repeat next, if any waits."""
        while self._wakes and self._is_stale(*self._wakes[0]):
            heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def _is_stale(self, wake_ms: int, key: RepeatKey) -> bool:
        record = self.by_key.get(key)
        return record is None or record.wake_ms != wake_ms
