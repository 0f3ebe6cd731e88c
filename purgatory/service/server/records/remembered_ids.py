"""RememberedIds: finds ids of ended operations among millions, in eleven bytes each.

The store's table `remembered` has a row for each, at a place. The row's entry here is a number of
62 bits, of the id's hash and the place. Entries are in sorted arrays, by the first bits of the
hash: an addition moves a few kilobytes. An unknown id finds a wrong row once in 2**40 looks, times
the remembered ids; the row has the whole id.

See `benchmarks/bench_remembered.py` for other ways. Store thread alone; any thread may read `total`
and `most`.
"""

import hashlib
from array import array
from bisect import bisect_left
from collections import defaultdict
from functools import partial
from typing import Final

from purgatory.service.errors import TooManyRemembered
from purgatory.service.store.changes import RememberedChanges

#: Defaults: ids that count, and how long an id is remembered.
MAX_REMEMBERED: Final = 10_000_000
REMEMBER_MS: Final = 86_400_000

_SHARD_BITS: Final = 12
_ENTRY_BITS: Final = 28
_PLACE_BITS: Final = 34
_PLACES: Final = (1 << _PLACE_BITS) - 1
_ENTRIES: Final = (1 << _ENTRY_BITS) - 1
SHARDS: Final = 1 << _SHARD_BITS
#: Memory of an entry: eight bytes, and spare room.
ID_BYTES: Final = 11


class RememberedIds:
    """The entries of remembered ids, and how many ids count towards `most`.

    `key`: a secret of the database for the hash, so no client can fill one shard. `remember_ms`:
    the period of submissions with DEFAULT. `count`: rows of the table. `reserved`: ids to be
    remembered, of operations pending or not in the table yet.
    """

    def __init__(
        self, key: bytes = b"", most: int = MAX_REMEMBERED, remember_ms: int = REMEMBER_MS
    ) -> None:
        self.most: int = most
        self.remember_ms: int = remember_ms
        self.count: int = 0
        self.reserved: int = 0
        #: The last place given; the last on disk.
        self.last_place: int = 0
        self.settled_place: int = 0
        #: The store's shards have the entries of rows up to here.
        self.dumped_place: int = 0
        self._hash: Final = hashlib.blake2b(key=key, digest_size=5)
        # Made when needed: four thousand arrays would take a millisecond of each start.
        self._shards: defaultdict[int, array[int]] = defaultdict(partial(array, "Q"))

    @property
    def total(self) -> int:
        """How many ids count towards `most`."""
        return self.count + self.reserved

    def refusal(self, unique_ms: int) -> TooManyRemembered | None:
        """Return why an id cannot be remembered, if so."""
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
        """Return the places of rows that may have an id."""
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
        """Return a new row's place; places grow, and are not reused."""
        self.last_place += 1
        return self.last_place

    def add(self, hashed: int, place: int) -> None:
        """Add the entry of a row on disk. Idempotent."""
        shard = self._shards[hashed >> _ENTRY_BITS]
        entry = _entry(hashed, place)
        index = bisect_left(shard, entry)
        if index == len(shard) or shard[index] != entry:
            shard.insert(index, entry)

    def discard(self, hashed: int, place: int) -> None:
        """Remove the entry of a deleted row. Idempotent."""
        shard = self._shards[hashed >> _ENTRY_BITS]
        entry = _entry(hashed, place)
        index = bisect_left(shard, entry)
        if index < len(shard) and shard[index] == entry:
            del shard[index]

    def prepare(self, changes: RememberedChanges) -> None:
        """Add the figures to changes."""
        changes.count = self.count + len(changes.rows) - len(changes.deleted)
        changes.last_place = self.last_place

    def publish(self, changes: RememberedChanges) -> None:
        """Apply committed changes."""
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
        """Replace a shard's entries. Raises ValueError for damage."""
        entries = array("Q")
        entries.frombytes(dumped)
        if len(entries) and (entries[-1] < entries[0] or entries[-1] >> _PLACE_BITS > _ENTRIES):
            raise ValueError(f"shard {shard} of the remembered ids is damaged")
        self._shards[shard] = entries

    @property
    def entries(self) -> int:
        """How many entries exist, also of rows deleted after the last dump."""
        return sum(map(len, self._shards.values()))

    def clear(self) -> None:
        """Remove all entries."""
        self._shards.clear()

    def _check(self) -> None:
        for number, shard in self._shards.items():
            entries = shard.tolist()
            assert entries == sorted(set(entries)), f"shard {number}: {entries}"
        assert self.entries >= self.count, self.count


def _entry(hashed: int, place: int) -> int:
    return (hashed & _ENTRIES) << _PLACE_BITS | place
