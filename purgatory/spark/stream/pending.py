"""Pending operations of a shard, and their form in the state store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INT64_MIN = -(2**63)


@dataclass(slots=True)
class ShardOperation:
    """An operation that waits; `keys` are those without an event, of which it needs `need`.

    `number` is its own within the shard. `need` is 0 once it has ended.
    """

    number: int
    op_id: str
    kind: str
    submitted_ms: int
    deadline_ms: int
    need: int
    keys: list[str]


Watchers = dict[int, ShardOperation]  # of one key, by number


class WatchersCodec:
    """Packs the operations that watch a key.

    An operation with several keys is packed with each of them. All its copies that are read within
    one micro-batch become one object.
    """

    def __init__(self) -> None:
        self._known: dict[int, ShardOperation] = {}

    def to_json(self, value: Watchers) -> Any:
        """Return a list of operations, each as a list of its fields."""
        return [
            (o.number, o.op_id, o.kind, o.submitted_ms, o.deadline_ms, o.need, o.keys)
            for o in value.values()
        ]

    def from_json(self, value: Any) -> Watchers:
        """Return the operations."""
        watchers: Watchers = {}
        for row in value:
            known = self._known.get(row[0])
            watchers[row[0]] = known or self._add(ShardOperation(*row))
        return watchers

    def _add(self, operation: ShardOperation) -> ShardOperation:
        if len(operation.keys) > 1:
            self._known[operation.number] = operation
        return operation


class PlainCodec:
    """Packs values that are JSON already."""

    def to_json(self, value: Any) -> Any:
        """Return the value."""
        return value

    def from_json(self, value: Any) -> Any:
        """Return the value."""
        return value
