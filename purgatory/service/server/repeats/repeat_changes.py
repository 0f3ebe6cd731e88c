"""RepeatChanges: a transaction's changes of repeats. Store thread alone."""

from purgatory.service.server.repeats.repeat_record import RepeatKey, RepeatRecord
from purgatory.service.server.repeats.repeat_registry import RepeatRegistry
from purgatory.service.store.changes import Changes


class RepeatChanges:
    """Changes of `registry`, written to `changes`."""

    def __init__(self, registry: RepeatRegistry, changes: Changes) -> None:
        self._registry = registry
        self._changes = changes
        self._records: dict[RepeatKey, RepeatRecord | None] = {}  # None: deleted
        self._removed: dict[RepeatKey, RepeatRecord] = {}
        self._taken: list[RepeatRecord] = []

    def find(self, key: RepeatKey) -> RepeatRecord | None:
        """Return a repeat in this transaction, if any."""
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
        """Return the runs of a repeat, if the transaction deleted it."""
        record = self._removed.get(key)
        return () if record is None else record.runs

    def count(self, client: str | None = None) -> int:
        """Count the repeats of all clients, or one, in this transaction."""
        registry = self._registry
        count = len(registry) if client is None else registry.counts.get(client, 0)
        for key, record in self._records.items():
            if client in (None, key[0]):
                count += (record is not None) - (key in registry.by_key)
        return count

    def bytes_more(self) -> int:
        """Return the bytes that this transaction adds."""
        by_key = self._registry.by_key
        return sum(
            (0 if record is None else record.bytes) - (by_key[key].bytes if key in by_key else 0)
            for key, record in self._records.items()
        )

    def take_due(self, now_ms: int, most: int) -> list[RepeatRecord]:
        """Return repeats to examine; without `put` they come again."""
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
        """Change the repeats."""
        for record in self._taken:
            if record.key not in self._records:
                self._registry.watch(record)
        for key, changed in self._records.items():
            if changed is None:
                self._registry.remove(key)
            else:
                self._registry.put(changed)

    def roll_back(self) -> None:
        """Leave the repeats unchanged."""
        for record in self._taken:
            self._registry.watch(record)


def _differs(before: RepeatRecord, after: RepeatRecord) -> bool:
    return (
        before.settings is not after.settings
        or before.next_ms != after.next_ms
        or before.last_ms != after.last_ms
        or before.skipped != after.skipped
        or before.paused != after.paused
    )
