"""The state of a single shard between micro-batches, in maps of the state store.

    watchers   pending operations by watch key          buckets, see `bucket_table`
    ids        numbers and keys of operations by id     buckets; only if timeouts can be extended
    holds      held events, by key                      buckets
    deadlines  hashes of keys by deadline               ticks, see `tick_table`
    waiting    rows of instants that are not closed     ticks
    facts      all other facts, a JSON object

Keys are numbers, values JSON in UTF-8: `spark.read.format("statestore")` shows them, with
`CAST(user_map_value.packed AS STRING)`.

For one task within a single micro-batch.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from purgatory.spark.stream.bucket_table import BucketTable, PackedMap, pack
from purgatory.spark.stream.tick_table import TickTable
from purgatory.trace.validation import INT64_MIN

BUCKET_MAPS: Final = ("watchers", "ids", "holds")
TICK_MAPS: Final = ("deadlines", "waiting")
MAPS: Final = (*BUCKET_MAPS, *TICK_MAPS, *(f"{name}_pages" for name in TICK_MAPS), "facts")

_OPERATION: Final = 0  # its code; see `shard`
# The facts that are attributes.
_FACTS: Final = (
    *("closed_ms", "newest_ms", "counts", "last_deadline_ms"),
    *("waiting_operations", "waiting_events"),
)


class ShardState:
    """The state of a single shard.

    `stores`: the maps by their names in `MAPS`. `pending`: submitted operations without an outcome.
    `counts`: rows by fate since the stream began. Else as in `entry.CheckpointEntry`.
    """

    def __init__(self, stores: Mapping[str, PackedMap], *, extensible: bool) -> None:
        self.extensible = extensible
        self._facts_store = stores["facts"]
        packed = self._facts_store.get(0)
        facts: dict[str, Any] = json.loads(packed) if packed else {}
        self.closed_ms: int = facts.get("closed_ms", INT64_MIN)
        self.newest_ms: dict[str, int] = facts.get("newest_ms", {})
        self.pending: int = facts.get("alive", 0)
        self.counts: dict[str, int] = facts.get("counts", {})
        self.last_deadline_ms: int = facts.get("last_deadline_ms", INT64_MIN)
        self.waiting_operations: int = facts.get("waiting_operations", 0)
        self.waiting_events: int = facts.get("waiting_events", 0)
        self._numbers: int = facts.get("numbers", 0)
        sizes = facts.get("sizes", {})
        pages = facts.get("pages", {})
        codec = WatchersCodec()
        self.watchers: BucketTable[Watchers] = BucketTable(
            stores["watchers"], codec.to_json, codec.from_json, **sizes.get("watchers", {})
        )
        self.ids: BucketTable[list[Any]] = BucketTable(stores["ids"], **sizes.get("ids", {}))
        self.holds: BucketTable[list[Any]] = BucketTable(stores["holds"], **sizes.get("holds", {}))
        self.deadlines, self.waiting = (
            TickTable(stores[name], stores[f"{name}_pages"], set(pages.get(name, ())))
            for name in TICK_MAPS
        )

    def next_number(self) -> int:
        """Return a number never used before."""
        self._numbers += 1
        return self._numbers

    def note_deadline(self, deadline_ms: int) -> None:
        """Note a deadline."""
        self.last_deadline_ms = max(self.last_deadline_ms, deadline_ms)

    def count_waiting(self, code: int, more: int) -> None:
        """Count a row that waits for the end of its instant."""
        if code == _OPERATION:
            self.waiting_operations += more
        else:
            self.waiting_events += more

    def count(self, name: str, rows: int) -> None:
        """Count rows of a fate."""
        self.counts[name] = self.counts.get(name, 0) + rows

    def facts(self) -> dict[str, Any]:
        """Return where the shard stands, for its row of output."""
        return {
            "closed_ms": self.closed_ms,
            "newest_ms": self.newest_ms,
            "pending": self.pending + self.waiting_operations,
            "kept": self.waiting_events,
            "last_deadline_ms": self.last_deadline_ms,
            "counts": self.counts,
        }

    def flush(self) -> None:
        """Write changes."""
        buckets: dict[str, BucketTable[Any]] = {name: getattr(self, name) for name in BUCKET_MAPS}
        ticks: dict[str, TickTable] = {name: getattr(self, name) for name in TICK_MAPS}
        for bucket_table in buckets.values():
            bucket_table.flush()
        for tick_table in ticks.values():
            tick_table.flush()
        if not (self.pending or self.waiting_operations):
            self.last_deadline_ms = INT64_MIN
        facts: dict[str, Any] = {name: getattr(self, name) for name in _FACTS}
        facts["alive"], facts["numbers"] = self.pending, self._numbers
        facts["sizes"] = {
            name: {"buckets": table.buckets, "entries": table.entries}
            for name, table in buckets.items()
        }
        facts["pages"] = {name: sorted(table.pages) for name, table in ticks.items()}
        self._facts_store.put(0, pack(facts))


@dataclass(slots=True)
class ShardOperation:
    """A waiting operation, which needs `need` more of `keys`.

    `number` is its own within the shard. `need` is 0 once it has ended.
    """

    number: int
    op_id: str
    kind: str
    submitted_ms: int
    deadline_ms: int
    need: int
    keys: list[str]


Watchers = dict[int, ShardOperation]  # of a single key, by number


class WatchersCodec:
    """Packs the operations that watch a key. Copies read within a micro-batch become one object."""

    def __init__(self) -> None:
        self._known: dict[int, ShardOperation] = {}

    def to_json(self, value: Watchers) -> Any:
        """Return lists of the operations' fields."""
        return [
            (o.number, o.op_id, o.kind, o.submitted_ms, o.deadline_ms, o.need, o.keys)
            for o in value.values()
        ]

    def from_json(self, value: Any) -> Watchers:
        """Return operations by number."""
        watchers: Watchers = {}
        for row in value:
            known = self._known.get(row[0])
            watchers[row[0]] = known or self._add(ShardOperation(*row))
        return watchers

    def _add(self, operation: ShardOperation) -> ShardOperation:
        if len(operation.keys) > 1:
            self._known[operation.number] = operation
        return operation
