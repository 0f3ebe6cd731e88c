"""Rows packed for the shards, and unpacked there."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructType

from purgatory.spark.stream.packing import CLOSE, REJECTED, SHARD, Packer, unpack
from purgatory.spark.stream.sources import ROWS

SCHEMA = to_arrow_schema(StructType([*ROWS]).add(SHARD, LongType()))


def packed(rows, *, numbered=(), size=None):
    """Pack rows for the shards 5 and 9; return shard, table, newest time and unpacked rows.

    `size`: of the batches in which the rows come.
    """
    batches = pa.Table.from_pylist(rows, schema=SCHEMA).to_batches(size)
    found = [row for out in Packer((5, 9), numbered)(iter(batches)) for row in out.to_pylist()]
    return [
        (r["shard"], r["table"], r["newest_ms"], unpack(r["table"], r["rows"]) if r["rows"] else [])
        for r in found
    ]


def event(key, at_ms, place):
    """Make a checked row of an event."""
    more = {"hold_ms": 0, "failed": False, "file": "f", "place": place}
    return {"table": "events", "time_ms": at_ms, "key": key, **more}


def test_events_go_to_every_shard_and_operations_to_their_own():
    """Each row with its time, code, file and place; the newest time goes to all shards."""
    operation = {"op_id": "o", "kind": "", "timeout_ms": 3, "keys": ["k"], "need": 1}
    rows = [
        event("k", 7, 0),
        event("l", 4, 1),
        {"table": "operations", "time_ms": 2, "file": "g", "place": 8, SHARD: 9, **operation},
    ]
    events = [[7, 2, "f", 0, "k", 0, False], [4, 2, "f", 1, "l", 0, False]]
    assert packed(rows) == [
        (5, "events", 7, events),
        (9, "events", 7, events),
        (5, "operations", 2, []),
        (9, "operations", 2, [[2, 0, "g", 8, "o", "", 3, ["k"], 1]]),
    ]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_rows_of_text_files_get_their_number(size):
    """Spark knows only where their block of the file begins; it comes in batches."""
    found = packed([event("k", 7, 100)] * 5, numbered=["events"], size=size)
    places = [row[3] for shard, _, _, rows in found for row in rows if shard == 5]
    assert places == [100, 101, 102, 103, 104]


@pytest.mark.parametrize("shard", [5, 9])
def test_rejected_rows_go_to_the_first_shard(shard):
    """The others hear that there were some, and all of a row that closes instants."""
    bad = {"table": "events", "reason": "why", "row": "{}", "file": "f"}
    found = packed([bad, {"table": CLOSE, "time_ms": 3}])
    expected = [["events", "f", "why", "{}"]] if shard == 5 else []
    assert [row for row in found if row[0] == shard] == [
        (shard, REJECTED, 0, expected),
        (shard, CLOSE, 3, []),
    ]
