"""The operator's maps in the state store."""

import gc
import json
from types import SimpleNamespace

import pandas as pd
import pyarrow as pa
import pytest

from purgatory.spark.stream import processor, shard_state
from purgatory.spark.stream.packing import CLOSE, REJECTED, _dump
from purgatory.spark.stream.processor import ShardProcessor, _ShardBatch
from purgatory.spark.stream.shard import EVENT, OPERATION
from purgatory.spark.stream.shard_state import ShardState
from purgatory.spark.tables import schema
from tests.testing.memory_store import MemoryStore

# The names in the checkpoints that exist: a new name would be an empty map.
MAPS = (
    *("watchers", "ids", "holds"),
    *("deadlines", "waiting", "deadlines_pages", "waiting_pages"),
    "facts",
)


class Handle:
    """Opens maps that tell their names and types."""

    def getMapState(self, name, key, value):
        """Return the arguments."""
        return name, key.simpleString(), value.simpleString()


def test_each_map_has_the_name_of_earlier_versions():
    """So that a stream goes on from its checkpoint, and no two maps share their entries."""
    processor = ShardProcessor(["operations", "events"], 0, 0)
    processor.init(Handle())
    types = "struct<number:bigint>", "struct<packed:binary>"
    assert processor._maps == {name: (name, *types) for name in MAPS}


@pytest.mark.parametrize(
    ("closed_ms", "ids"), [(9, []), (10, ["a"]), (11, ["a"]), (12, ["a", "b"])]
)
def test_what_a_batch_writes(closed_ms, ids):
    """A frame of outcomes, if there are some; then where the shard stands, which counts them."""
    state = ShardState({name: MemoryStore() for name in shard_state.MAPS}, extensible=False)
    batch = _ShardBatch(state, is_first=True)
    batch._shard.take(
        [[n, OPERATION, "f", n, name, "", 10 + n, ["k"], 1] for n, name in enumerate("ab")]
    )
    batch.take(CLOSE, closed_ms, None)
    *outcomes, last = batch.advance(["operations"], 0)
    assert [list(frame.op_id) for frame in outcomes] == [ids] * bool(ids)
    assert list(last.output) == ["facts"]
    assert json.loads(last.row[0])["written"].get("outcomes", 0) == len(ids)


@pytest.mark.parametrize("is_first", [True, False])
def test_rows_that_do_not_count_are_written(is_first):
    """Rejected rows, and late ones: those of events by the first shard, as every shard has them."""
    state = ShardState({name: MemoryStore() for name in shard_state.MAPS}, extensible=False)
    state.closed_ms = 100
    late = {"closed_ms": 100}
    batch = _ShardBatch(state, is_first=is_first)
    packed = _dump(pa.table({name: [f"the {name}"] for name in schema.REJECTED.names}), REJECTED)
    batch.take(REJECTED, 0, packed)
    batch.take(REJECTED, 0, None)
    event = [5, EVENT, "f", 1, "k", 3, False]
    late_rows = [event, [6, OPERATION, "f", 2, "o", "", 9, ["k"], 1]]
    open_rows = [[200 + n, *row[1:]] for n, row in enumerate([event, *late_rows])]
    batch._shard.take(late_rows + open_rows)
    (last,) = batch.advance(["operations", "events"], 0)
    rows = [(output, json.loads(row)) for output, row in zip(last.output, last.row, strict=True)]
    operation = {"op_id": "o", "kind": "", "timeout_ms": 9, "keys": ["k"], "need": 1}
    of_first = [("late_events", {"at_ms": 5, "key": "k", "hold_ms": 3, "failed": False, **late})]
    assert rows[:-1] == [
        *of_first * is_first,
        ("late_operations", {"submitted_ms": 6, **operation, **late}),
        ("rejected", {name: f"the {name}" for name in schema.REJECTED.names}),
    ]
    counts = {output: 1 for output, _ in rows[:-2]}
    taken = {"operations": 1, **({"events": 2} if is_first else {})}
    facts = rows[-1][1]
    assert facts["counts"] == counts | taken | {"rejected_the table": 1}
    assert facts["written"] == counts | {"rejected": 1, "outcomes": 0}
    assert (facts["pending"], facts["kept"], facts["closed_ms"]) == (1, 2, 100)


class Maps:
    """Opens maps without entries."""

    def getMapState(self, *_):
        """Return a map as Spark has them."""
        return {}


@pytest.mark.parametrize("is_on", [True, False])
def test_no_cycles_are_looked_for_in_a_batch(is_on, monkeypatch):
    """A shard has many objects and makes no cycle; afterwards the collector is as it was."""
    seen = []
    monkeypatch.setattr(processor, "PackedMap", lambda state: MemoryStore())
    monkeypatch.setattr(ShardState, "flush", lambda self: seen.append(gc.isenabled()))
    shard = ShardProcessor(["operations"], 0, 0)
    shard.init(Maps())
    before = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        frames = list(shard.handleInputRows((0,), iter([]), None))
        assert (seen, gc.isenabled()) == ([False], is_on)
    finally:
        (gc.enable if before else gc.disable)()
    assert [list(frame.output) for frame in frames] == [["facts"]]


class StateMap(dict):
    """A map of Spark's state store: keys and values are rows."""

    getValue, removeKey = dict.get, dict.__delitem__

    def updateValue(self, key, value):
        """Write a value."""
        assert isinstance(key, tuple)
        assert isinstance(value, tuple)
        self[key] = value


def test_a_shard_goes_on_from_sparks_maps():
    """An operation waits in them between two micro-batches, and leaves them when it ends."""
    maps = {}
    handle = SimpleNamespace(getMapState=lambda name, *_: maps.setdefault(name, StateMap()))
    row = {"time_ms": 5, "file": "f", "place": 0, "op_id": "o", "kind": "", "timeout_ms": 9}
    packed = _dump(pa.Table.from_pylist([row | {"keys": ["k"], "need": 1}]), "operations")

    def micro_batch(table, newest_ms, rows):
        shard = ShardProcessor(["operations"], 0, 0)
        shard.init(handle)
        frame = pd.DataFrame({"table": [table], "newest_ms": [newest_ms], "rows": [rows]})
        frames = list(shard.handleInputRows((0,), iter([frame]), None))
        return [op_id for frame in frames[:-1] for op_id in frame.op_id]

    assert micro_batch("operations", 5, packed) == []
    assert micro_batch(CLOSE, 10, None) == []
    assert (bool(maps["watchers"]), bool(maps["deadlines"])) == (True, True)
    assert micro_batch(CLOSE, 14, None) == ["o"]
    assert {name for name, entries in maps.items() if entries} == {"facts"}
