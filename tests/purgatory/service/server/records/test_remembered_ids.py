"""Places of remembered ids: found by the id, in arrays that are checked against a dict."""

import random
import sys
from zlib import crc32

import pytest

from purgatory.service.errors import TooManyRemembered
from purgatory.service.protocol import MADE_UP
from purgatory.service.server.records import remembered_ids
from purgatory.service.server.records.remembered_ids import (
    SHARDS,
    RememberedIds,
)
from purgatory.service.store.changes import RememberedChanges
from purgatory.service.store.rows import RememberedRow


def row_of(ids, op_id, until_ms=0):
    """The row of an id, at the next place."""
    return RememberedRow(ids.next_place(), until_ms, ids.hash_of(op_id), 1, b"")


def remember(ids, *op_ids):
    """Publish rows of ids; returns their places."""
    changes = RememberedChanges()
    changes.rows = [row_of(ids, op_id) for op_id in op_ids]
    ids.prepare(changes)
    ids.publish(changes)
    return [row.place for row in changes.rows]


def test_an_id_is_found_until_its_row_is_deleted():
    """Others are not, and an id may have several rows."""
    ids = RememberedIds(b"key")
    assert (ids.last_place, ids.settled_place, ids.dumped_place) == (0, 0, 0)
    assert ids.places("a") == []
    first, _, third = remember(ids, "a", "b", "a")
    assert ids.places("a") == [first, third]
    assert ids.places("c") == []
    changes = RememberedChanges()
    changes.deleted = [(ids.hash_of("a"), first)]
    ids.prepare(changes)
    assert (changes.count, changes.last_place) == (2, 3)
    ids.publish(changes)
    assert ids.places("a") == [third]
    assert (ids.count, ids.total, ids.settled_place) == (2, 2, 3)
    ids._check()


def test_against_a_dict():
    """Thousands of ids in few shards: all are found, and none that was deleted."""
    ids, chosen = RememberedIds(b"key"), random.Random(7)
    ids.hash_of = lambda op_id: crc32(op_id.encode()) & 0x3000_000F  # four shards
    model = {}
    for step in range(4000):
        op_id = f"id-{chosen.randrange(500)}"
        changes = RememberedChanges()
        if chosen.random() < 0.6:
            changes.rows = [row_of(ids, op_id)]
            model.setdefault(op_id, set()).add(changes.rows[0].place)
        elif model.get(op_id):
            changes.deleted = [(ids.hash_of(op_id), model[op_id].pop())]
        ids.publish(changes)
        if step % 100 == 0:
            for known, places in model.items():
                assert places <= set(ids.places(known))
            assert ids.entries == ids.count == sum(map(len, model.values()))
    ids._check()


def test_what_was_dumped_is_loaded():
    """All shards of one; another key finds none of the ids."""
    ids = RememberedIds(b"key")
    names = [f"id-{number}" for number in range(3000)]
    places = dict(zip(names, remember(ids, *names), strict=True))
    for key, is_found in [(b"key", True), (b"other", False)]:
        copy = RememberedIds(key)
        for shard in range(SHARDS):
            copy.load(shard, ids.dump(shard))
        copy.count = copy.entries
        assert copy.count == 3000
        found = [name for name in names if places[name] in copy.places(name)]
        assert found == (names if is_found else [])
        copy._check()
    copy.clear()
    assert copy.entries == 0


@pytest.mark.parametrize(
    "dumped", [b"1234567", b"\x02" + b"\0" * 7 + b"\x01" + b"\0" * 7, b"\xff" * 8]
)
def test_a_damaged_dump(dumped):
    """Half an entry, entries out of order, and bits that no entry has."""
    with pytest.raises(ValueError, match=r"damaged|item size"):
        RememberedIds().load(0, dumped)


def test_the_bound():
    """It counts rows, and ids that will have one."""
    ids = RememberedIds(b"key", most=3)
    remember(ids, "a", "b")
    assert ids.refusal(1) is None
    ids.reserved += 1
    assert ids.total == 3
    refusal = ids.refusal(1)
    assert isinstance(refusal, TooManyRemembered)
    assert "remembers 3 ids" in str(refusal)
    assert ids.refusal(0) is None
    assert ids.refusal(MADE_UP) is None


def test_an_entry_twice():
    """An entry that is there is not added again, and one that is not there is not removed."""
    ids = RememberedIds(b"key")
    hashed = ids.hash_of("a")
    ids.add(hashed, 1)
    ids.add(hashed, 1)
    ids.discard(hashed, 2)
    assert ids.entries == 1


@pytest.mark.parametrize("count", range(3))
def test_the_smallest_dumps(count):
    """A shard of a single entry, or of none, is loaded, too."""
    ids, other = RememberedIds(b"key"), RememberedIds(b"key")
    remember(ids, *map(str, range(count)))
    for shard in range(SHARDS):
        other.load(shard, ids.dump(shard))
    assert other.entries == count


def test_the_last_entry_there_can_be():
    """Its bits are all set, and no others."""
    most = (remembered_ids._ENTRIES << remembered_ids._PLACE_BITS | remembered_ids._PLACES) + 1
    RememberedIds().load(0, (most - 1).to_bytes(8, sys.byteorder))
    with pytest.raises(ValueError, match="damaged"):
        RememberedIds().load(0, most.to_bytes(8, sys.byteorder))
