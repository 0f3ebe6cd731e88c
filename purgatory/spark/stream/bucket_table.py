"""A table of entries by text key, packed into buckets of a state store.

Calls to the state store are slow, so entries are read and written by the bucket, as JSON. Buckets
split and merge one at a time (Litwin, "Linear hashing: a new tool for file and table addressing",
1980), so no micro-batch writes the whole table anew.

For one task within a single micro-batch; `flush` writes changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

TARGET: Final = 128  # entries of a bucket
_SMALL: Final = TARGET // 8  # merge below so many
_MAX_MERGES: Final = 64  # at a time

_ValueT = TypeVar("_ValueT")


class PackedMap:
    """A map in Spark's state store, of packed values by number."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, number: int) -> bytes | None:
        """Return a value, or None."""
        found = self._state.getValue((number,))
        return None if found is None else found[0]

    def put(self, number: int, value: bytes) -> None:
        """Write a value."""
        self._state.updateValue((number,), (value,))

    def remove(self, number: int) -> None:
        """Remove a value."""
        self._state.removeKey((number,))


def key_hash(key: str) -> int:
    """Return 32 bits for a key, equal in every process."""
    return crc32(key.encode())


class BucketTable(Generic[_ValueT]):
    """Values by key. The caller counts `entries`.

    `to_json`, `from_json`: from a value to what `json` writes, and back.
    """

    def __init__(
        self,
        store: PackedMap,
        to_json: Callable[[_ValueT], Any] = lambda value: value,
        from_json: Callable[[Any], _ValueT] = lambda value: value,
        *,
        buckets: int = 1,
        entries: int = 0,
    ) -> None:
        self.buckets = buckets
        self.entries = entries
        self._store = store
        self._to_json, self._from_json = to_json, from_json
        self._loaded: dict[int, dict[str, _ValueT]] = {}
        self._changed: set[int] = set()

    def get(self, key: str) -> _ValueT | None:
        """Return the value of a key."""
        return self._bucket(self.slot(key_hash(key))).get(key)

    def edit(self, key: str) -> dict[str, _ValueT]:
        """Return the bucket of a key, for the caller to change."""
        slot = self.slot(key_hash(key))
        self._changed.add(slot)
        return self._bucket(slot)

    def bucket_copy(self, slot: int) -> dict[str, _ValueT]:
        """Return a copy of a bucket."""
        return dict(self._bucket(slot))

    def slot(self, number: int) -> int:
        """Return the bucket of a key's hash."""
        level = 1 << (self.buckets.bit_length() - 1)
        wide = number & (2 * level - 1)
        return wide if wide < self.buckets else wide & (level - 1)

    def flush(self) -> None:
        """Adapt the number of buckets, and write changed buckets."""
        while self.entries > self.buckets * TARGET:
            self._split()
        for _ in range(_MAX_MERGES):
            if self.buckets == 1 or self.entries >= self.buckets * _SMALL:
                break
            self._merge()
        for slot in self._changed:
            self._write(slot)

    def _split(self) -> None:
        added = self.buckets
        source = added - (1 << (added.bit_length() - 1))
        before = self._bucket(source)
        self.buckets += 1
        self._loaded[added] = {}
        for key in [key for key in before if self.slot(key_hash(key)) == added]:
            self._loaded[added][key] = before.pop(key)
        self._changed |= {source, added}

    def _merge(self) -> None:
        last = self.buckets - 1
        target = last - (1 << (last.bit_length() - 1))
        self._bucket(target).update(self._bucket(last))
        self._loaded[last] = {}
        self.buckets -= 1
        self._changed |= {target, last}

    def _bucket(self, slot: int) -> dict[str, _ValueT]:
        found = self._loaded.get(slot)
        if found is None:
            packed = self._store.get(slot)
            rows = json.loads(packed) if packed else {}
            found = {key: self._from_json(value) for key, value in rows.items()}
            self._loaded[slot] = found
        return found

    def _write(self, slot: int) -> None:
        bucket = self._loaded[slot]
        if bucket:
            rows = {key: self._to_json(value) for key, value in bucket.items()}
            self._store.put(slot, pack(rows))
        else:
            self._store.remove(slot)


def pack(value: object) -> bytes:
    """Return a value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
