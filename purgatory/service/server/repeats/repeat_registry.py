"""RepeatRegistry: all repeats of a server, and when to look at which.

Used by the store thread alone; `length` may be read by any.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from sortedcontainers import SortedDict

from purgatory.service.server.repeats.repeat_record import RepeatKey, RepeatRecord
from purgatory.service.store.changes import Changes

# So many entries of `_wakes` may be stale before they are dropped.
_STALE_ENTRIES: Final = 1000


class RepeatRegistry:
    """The repeats that are on disk, by client and name."""

    def __init__(self) -> None:
        self.by_key: SortedDict[RepeatKey, RepeatRecord] = SortedDict()
        #: How many repeats each client has, by name.
        self.counts: dict[str, int] = {}
        self.bytes: int = 0  # that they take
        # When to look, and at which; stale if the record says another time.
        self._wakes: list[tuple[int, RepeatKey]] = []

    def __len__(self) -> int:
        return len(self.by_key)

    def put(self, record: RepeatRecord) -> None:
        """Add a repeat, or replace it."""
        self.remove(record.key)
        self.by_key[record.key] = record
        self.counts[record.client] = self.counts.get(record.client, 0) + 1
        self.bytes += record.bytes
        self.watch(record)

    def remove(self, key: RepeatKey) -> None:
        """Remove a repeat; nothing happens if none exists."""
        record = self.by_key.pop(key, None)
        if record is None:
            return
        self.bytes -= record.bytes
        self.counts[record.client] -= 1
        if not self.counts[record.client]:
            del self.counts[record.client]

    def watch(self, record: RepeatRecord) -> None:
        """Have `take_due` return a repeat when its time comes."""
        if not record.wake_ms:
            return
        heappush(self._wakes, (record.wake_ms, record.key))
        if len(self._wakes) > 2 * len(self.by_key) + _STALE_ENTRIES:
            self._wakes = [(one.wake_ms, one.key) for one in self.by_key.values() if one.wake_ms]
            heapify(self._wakes)

    def take_due(self, now_ms: int, most: int) -> list[RepeatRecord]:
        """Return repeats to look at now, each once; `put` or `watch` lets them come again."""
        found: dict[RepeatKey, RepeatRecord] = {}
        while len(found) < most and (wake_ms := self.next_wake_ms()) is not None:
            if wake_ms > now_ms:
                break
            key = heappop(self._wakes)[1]
            found[key] = self.by_key[key]
        return list(found.values())

    def next_wake_ms(self) -> int | None:
        """Return when to look next; None: not before a repeat changes."""
        while self._wakes and self._is_stale(*self._wakes[0]):
            heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def _is_stale(self, wake_ms: int, key: RepeatKey) -> bool:
        record = self.by_key.get(key)
        return record is None or record.wake_ms != wake_ms


class RepeatChanges:
    """Records that replace the records of `registry` when `changes` are on disk."""

    def __init__(self, registry: RepeatRegistry, changes: Changes) -> None:
        self._registry = registry
        self._changes = changes
        self._records: dict[RepeatKey, RepeatRecord | None] = {}  # None: deleted
        self._removed: dict[RepeatKey, RepeatRecord] = {}
        self._taken: list[RepeatRecord] = []

    def find(self, key: RepeatKey) -> RepeatRecord | None:
        """Return a repeat after this transaction; None if absent."""
        if key in self._records:
            return self._records[key]
        return self._registry.by_key.get(key)

    def put(self, record: RepeatRecord) -> None:
        """Add a repeat, or replace it."""
        self._records[record.key] = record

    def remove(self, key: RepeatKey) -> None:
        """Delete a repeat."""
        record = self.find(key)
        if record is not None:
            self._removed[key] = record
        self._records[key] = None

    def removed_runs(self, key: RepeatKey) -> tuple[str, ...]:
        """Return the ids of runs of a repeat that this transaction has deleted."""
        record = self._removed.get(key)
        return () if record is None else record.runs

    def count(self, client: str | None = None) -> int:
        """Return how many repeats there are, or a client has, after this transaction."""
        registry = self._registry
        count = len(registry) if client is None else registry.counts.get(client, 0)
        for key, record in self._records.items():
            if client in (None, key[0]):
                count += (record is not None) - (key in registry.by_key)
        return count

    def bytes_more(self) -> int:
        """Return how many bytes this transaction adds."""
        by_key = self._registry.by_key
        return sum(
            (0 if record is None else record.bytes) - (by_key[key].bytes if key in by_key else 0)
            for key, record in self._records.items()
        )

    def take_due(self, now_ms: int, most: int) -> list[RepeatRecord]:
        """Return repeats to examine now; without `put` they come again."""
        taken = self._registry.take_due(now_ms, most)
        self._taken += taken
        found = [self.find(record.key) for record in taken]
        return [record for record in found if record is not None and record.wake_ms]

    def prepare(self) -> None:
        """Add the rows that differ from the disk."""
        for key, record in self._records.items():
            before = self._registry.by_key.get(key)
            if record is None:
                if before is not None:
                    self._changes.delete_repeats.append(key)
            elif before is None or _differs(before, record):
                self._changes.repeats += record.row()

    def publish(self) -> None:
        """Change the repeats, after the commit."""
        for record in self._taken:
            if record.key not in self._records:
                self._registry.watch(record)
        for key, changed in self._records.items():
            if changed is None:
                self._registry.remove(key)
            else:
                self._registry.put(changed)

    def roll_back(self) -> None:
        """Leave the repeats unchanged: examined repeats come again."""
        for record in self._taken:
            self._registry.watch(record)


def _differs(before: RepeatRecord, after: RepeatRecord) -> bool:
    """Whether a repeat's row changes; the rest of a record is in memory only."""
    return (
        before.settings is not after.settings
        or before.next_ms != after.next_ms
        or before.last_ms != after.last_ms
        or before.skipped != after.skipped
        or before.paused != after.paused
    )
