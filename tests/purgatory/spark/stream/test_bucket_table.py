"""Entries by key, packed into buckets, whose number follows that of the entries."""

import random

from purgatory.spark.stream import bucket_table
from purgatory.spark.stream.bucket_table import BucketTable, PackedMap, key_hash
from tests.testing.memory_store import MemoryStore


def test_entries_survive_splits_and_merges(monkeypatch):
    """The table has what a dictionary has, however its buckets split and merge."""
    monkeypatch.setattr(bucket_table, "TARGET", 4)
    monkeypatch.setattr(bucket_table, "_SMALL", 2)
    rng = random.Random(7)
    store, wanted, sizes, reached = MemoryStore(), {}, {}, []
    for goal in (300, 20, 100, 0):
        while len(wanted) != goal:
            table = BucketTable(store, **sizes)
            for _ in range(min(25, abs(goal - len(wanted)))):
                if goal > len(wanted):
                    key, value = f"k{rng.random()}", rng.random()
                    wanted[key] = table.edit(key)[key] = value
                    table.entries += 1
                else:
                    key = rng.choice([*wanted])
                    assert table.edit(key).pop(key) == wanted.pop(key)
                    table.entries -= 1
            table.flush()
            sizes = {"buckets": table.buckets, "entries": table.entries}
        reached.append(table.buckets)
        table = BucketTable(store, **sizes)
        assert {key: table.get(key) for key in wanted} == wanted
        assert sum(len(table.bucket_copy(slot)) for slot in range(table.buckets)) == len(wanted)
    assert reached == [300 // 4, 20 // 2, 100 // 4, 1]
    assert store == {}


def test_keys_have_the_buckets_of_earlier_versions():
    """So that a stream goes on from its checkpoint."""
    tables = [BucketTable(MemoryStore(), buckets=buckets) for buckets in (1, 2, 3, 5, 8, 100)]
    assert [table.slot(key_hash("key")) for table in tables] == [0, 1, 1, 1, 1, 41]


def test_values_are_packed_by_the_functions_given():
    """As JSON, with what `to_json` makes of a value."""
    store = MemoryStore()
    table = BucketTable(store, to_json=sorted, from_json=set)
    table.edit("ä")["ä"] = {2, 1}
    table.flush()
    assert store == {0: '{"ä":[1,2]}'.encode()}
    assert BucketTable(store, to_json=sorted, from_json=set).get("ä") == {1, 2}


def test_buckets_follow_the_entries():
    """A split above 128 a bucket, a merge below 16, and at most 64 merges at a time."""
    table = BucketTable(MemoryStore())
    for entries, buckets in ((128, 1), (129, 2), (384, 3), (48, 3), (47, 2), (32, 2), (31, 1)):
        table.entries = entries
        table.flush()
        assert table.buckets == buckets
    table = BucketTable(MemoryStore(), buckets=100)
    table.flush()
    assert table.buckets == 36


class SparkMap:
    """Spark's state: rows by row."""

    def __init__(self):
        self.rows = {}
        self.getValue, self.updateValue = self.rows.get, self.rows.__setitem__
        self.removeKey = self.rows.__delitem__


def test_a_packed_map_keeps_bytes_by_number():
    """In Spark's state."""
    states = SparkMap()
    store = PackedMap(states)
    store.put(7, b"seven")
    assert (store.get(7), store.get(8), states.rows) == (b"seven", None, {(7,): (b"seven",)})
    store.remove(7)
    assert (store.get(7), states.rows) == (None, {})
