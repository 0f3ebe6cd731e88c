"""Entries by key, packed into buckets, whose number follows that of the entries."""

import random

from purgatory.spark.stream import bucket_table
from purgatory.spark.stream.bucket_table import BucketTable, key_hash
from tests.testing.memory_store import MemoryStore


def test_entries_survive_splits_and_merges(monkeypatch):
    """The table has what a dictionary has, however its buckets split and merge."""
    monkeypatch.setattr(bucket_table, "TARGET", 4)
    monkeypatch.setattr(bucket_table, "_SMALL", 2)
    rng = random.Random(7)
    store, wanted, sizes, most = MemoryStore(), {}, {}, 1
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
            most = max(most, table.buckets)
        table = BucketTable(store, **sizes)
        assert {key: table.get(key) for key in wanted} == wanted
        assert sum(len(table.bucket_copy(slot)) for slot in range(table.buckets)) == len(wanted)
    assert most == 300 // 4
    assert store == {}


def test_keys_have_the_buckets_of_earlier_versions():
    """So that a stream goes on from its checkpoint."""
    tables = [BucketTable(MemoryStore(), buckets=buckets) for buckets in (1, 2, 3, 5, 8, 100)]
    assert [table.slot(key_hash("key")) for table in tables] == [0, 1, 1, 1, 1, 41]


def test_values_are_packed_by_the_functions_given():
    """As JSON, with what `to_json` makes of a value."""
    store = MemoryStore()
    table = BucketTable(store, to_json=sorted, from_json=set)
    table.edit("a")["a"] = {2, 1}
    table.flush()
    assert store == {0: b'{"a":[1,2]}'}
    assert BucketTable(store, to_json=sorted, from_json=set).get("a") == {1, 2}
