"""RememberedIds: finds the ids of what has ended, among millions, in eleven bytes of memory each.

The store's table `remembered` has a row for each, at a place. Here is, for each row, an entry: a
number of 62 bits, made of bits of the id's hash and of the place. Entries are in sorted arrays, one
for each value of the hash's first bits, so adding one moves a few kilobytes. A look for an id that
is not remembered finds a wrong row once in 2**40 looks, times the remembered ids; the row has the
whole id.

`benchmarks/bench_remembered.py` compares it with an index of the database and with a Bloom filter.
Used by the store thread alone; `total` and `most` may be read by any.
"""

import hashlib
from array import array
from bisect import bisect_left
from typing import Final

from purgatory.service.errors import TooManyRemembered
from purgatory.service.store.changes import RememberedChanges

#: How many ids count at most, and for how long an id is remembered, by default.
MAX_REMEMBERED: Final = 10_000_000
REMEMBER_MS: Final = 86_400_000

_SHARD_BITS: Final = 12
_ENTRY_BITS: Final = 28
_PLACE_BITS: Final = 34
_PLACES: Final = (1 << _PLACE_BITS) - 1
_ENTRIES: Final = (1 << _ENTRY_BITS) - 1
#: How many arrays there are.
SHARDS: Final = 1 << _SHARD_BITS
#: Bytes of memory of an entry: eight, plus the spare room of growing arrays.
ID_BYTES: Final = 11


class RememberedIds:
    """The entries of remembered ids, and how many ids count towards `most`.

    `key`: of the hash, a secret of the database: no client can choose ids of a single shard.
    `remember_ms`: the period of submissions that say DEFAULT. `count`: rows of the table.
    `reserved`: ids that will be remembered, of what lives, or has ended and is not in the table
    yet.
    """

    def __init__(
        self, key: bytes = b"", most: int = MAX_REMEMBERED, remember_ms: int = REMEMBER_MS
    ) -> None:
        self.most: int = most
        self.remember_ms: int = remember_ms
        self.count: int = 0
        self.reserved: int = 0
        #: The last place given, and the last of those that are on disk.
        self.last_place: int = 0
        self.settled_place: int = 0
        #: The store's shards have the entries of all rows up to this one.
        self.dumped_place: int = 0
        self._hash: Final = hashlib.blake2b(key=key, digest_size=5)
        self._shards: list[array[int]] = [array("Q") for _ in range(SHARDS)]

    @property
    def total(self) -> int:
        """How many ids count towards `most`."""
        return self.count + self.reserved

    @property
    def memory_bytes(self) -> int:
        """How much memory they take, by estimate."""
        return ID_BYTES * self.total

    def refusal(self, unique_ms: int) -> TooManyRemembered | None:
        """Return why an id cannot be remembered for a period; None if it can, or has none."""
        if unique_ms <= 0 or self.total < self.most:
            return None
        return TooManyRemembered(
            f"the server remembers {self.total} ids, as many as max_remembered allows"
        )

    def hash_of(self, op_id: str) -> int:
        """Return the hash of an id, 40 bits."""
        hasher = self._hash.copy()
        hasher.update(op_id.encode())
        return int.from_bytes(hasher.digest())

    def places(self, op_id: str) -> list[int]:
        """Return the places of rows that may have an id; mostly none."""
        if not self.count:
            return []
        hashed = self.hash_of(op_id)
        shard = self._shards[hashed >> _ENTRY_BITS]
        first = _entry(hashed, 0)
        last = first | _PLACES
        index = bisect_left(shard, first)
        found: list[int] = []
        while index < len(shard) and shard[index] <= last:
            found.append(shard[index] & _PLACES)
            index += 1
        return found

    def next_place(self) -> int:
        """Return a place for a row; places grow, and none is given twice."""
        self.last_place += 1
        return self.last_place

    def add(self, hashed: int, place: int) -> None:
        """Add the entry of a row on disk; idempotent."""
        shard = self._shards[hashed >> _ENTRY_BITS]
        entry = _entry(hashed, place)
        index = bisect_left(shard, entry)
        if index == len(shard) or shard[index] != entry:
            shard.insert(index, entry)

    def discard(self, hashed: int, place: int) -> None:
        """Remove the entry of a deleted row; nothing happens if none exists."""
        shard = self._shards[hashed >> _ENTRY_BITS]
        entry = _entry(hashed, place)
        index = bisect_left(shard, entry)
        if index < len(shard) and shard[index] == entry:
            del shard[index]

    def prepare(self, changes: RememberedChanges) -> None:
        """Complete changes before they are written."""
        changes.count = self.count + len(changes.rows) - len(changes.deleted)
        changes.last_place = self.last_place

    def publish(self, changes: RememberedChanges) -> None:
        """Follow changes that are on disk."""
        for row in changes.rows:
            self.add(row.hash, row.place)
            self.settled_place = max(self.settled_place, row.place)
        for hashed, place in changes.deleted:
            self.discard(hashed, place)
        self.count += len(changes.rows) - len(changes.deleted)

    def dump(self, shard: int) -> bytes:
        """Return the entries of a shard, for `load`."""
        return self._shards[shard].tobytes()

    def load(self, shard: int, dumped: bytes) -> None:
        """Replace the entries of a shard. Raises ValueError for what `dump` has not returned."""
        entries = array("Q")
        entries.frombytes(dumped)
        if len(entries) and (entries[-1] < entries[0] or entries[-1] >> _PLACE_BITS > _ENTRIES):
            raise ValueError(f"shard {shard} of the remembered ids is damaged")
        self._shards[shard] = entries

    @property
    def entries(self) -> int:
        """How many entries there are: of each row, and of rows deleted after the last dump."""
        return sum(map(len, self._shards))

    def clear(self) -> None:
        """Remove all entries."""
        self._shards = [array("Q") for _ in range(SHARDS)]

    def _check(self) -> None:
        """Raise AssertionError unless each shard ascends, and has an entry of each row at least."""
        for number, shard in enumerate(self._shards):
            entries = shard.tolist()
            assert entries == sorted(set(entries)), f"shard {number}: {entries}"
        assert self.entries >= self.count, self.count


def _entry(hashed: int, place: int) -> int:
    """Return the number by which a row is found."""
    return (hashed & _ENTRIES) << _PLACE_BITS | place
