"""Column types in the Parquet files of a stream, which Spark itself does not check."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.spark.errors import TableError
from purgatory.spark.stream.file_types import check_types
from purgatory.spark.tables import schema
from purgatory.trace import KeyEvent, Operation
from tests.testing.stream_input import StreamInput

pytestmark = pytest.mark.timeout(400)

TEXT = "kind", "string"
KEYS = "keys", "array<string>"
NUMBER = "timeout_ms", "int64"
TIME = "submitted_ms", "Unix milliseconds as int64"


@pytest.mark.parametrize(
    ("column", "array", "found"),
    [
        *((TIME, pa.array([5], pa.timestamp(unit)), "timestamps") for unit in ("ms", "us", "ns")),
        (TIME, pa.array([5], pa.timestamp("us", "UTC")), "timestamps"),
        (NUMBER, pa.array([5], pa.timestamp("us")), "timestamps"),
        (NUMBER, pa.array([5], pa.duration("us")).cast(pa.int64()), None),
        (NUMBER, pa.array([5], pa.uint64()), "uint64"),
        (NUMBER, pa.array([5], pa.uint32()), None),
        (NUMBER, pa.array([5], pa.int16()), None),
        (NUMBER, pa.array([5], pa.time64("us")), r"TIME\(MICROS,false\)"),
        (NUMBER, pa.nulls(1), None),
        (TIME, pa.nulls(1), None),
        (TEXT, pa.nulls(1), "nulls without a type"),
        (TEXT, pa.array(['"k"'], pa.json_()), None),
        (NUMBER, pa.array([5], pa.duration("us")), "DURATION"),
        (NUMBER, pa.array([5.0]), "DOUBLE"),
        (NUMBER, pa.array(["5"]), "STRING"),
        (TEXT, pa.array(["k"]), None),
        (TEXT, pa.array(["k"]).dictionary_encode(), None),
        (TEXT, pa.array([b"k"]), "BINARY"),
        (KEYS, pa.nulls(1), "nulls without a type"),
        (KEYS, pa.array([[]]), "nulls without a type"),
        (KEYS, pa.array(["k"]), "STRING"),
        (KEYS, pa.array([[5]]), "LIST of INT64"),
        (KEYS, pa.ListArray.from_arrays([0, 1], pa.array(['"k"'], pa.json_())), None),
        (KEYS, pa.array([["k"]], pa.large_list(pa.large_string())), None),
    ],
)
def test_types(spark, tmp_path, column, array, found):
    """A column that a stream would misread is refused, and named with what a stream reads."""
    name, expected = column
    file = tmp_path / "1.parquet"
    pq.write_table(pa.table({name: array, "other": pa.nulls(1)}), file)
    if found is None:
        check_types(spark, [str(file)], schema.OPERATIONS.names)
        return
    words = rf"1\.parquet: column {name} holds {found}; a stream reads {expected}, in all files"
    with pytest.raises(TableError, match=words):
        check_types(spark, [str(file)], schema.OPERATIONS.names)


def test_a_later_file_is_checked_with_its_micro_batch(spark, tmp_path):
    """Of any source, by any name; with the file put right, the stream goes on."""
    feed = StreamInput(tmp_path)
    feed.put("operations", [Operation("o", "", 0, 10, ("a",))])
    feed.put("events", [KeyEvent("x", 1)])
    stream = feed.stream(spark, watermark_ms=0)
    stream.run(once=True)
    later = feed.path / "events" / "a b%20c.parquet"
    times = pa.array([5_000], pa.timestamp("us"))
    pq.write_table(pa.table({"key": ["a"], "at_ms": times}), later)
    with pytest.raises(
        TableError, match=r"^/[^:]*/a b%20c\.parquet: column at_ms holds timestamps"
    ):
        feed.stream(spark, watermark_ms=0).run(once=True)
    pq.write_table(pa.table({"key": ["a"], "at_ms": [5]}), later)
    feed.stream(spark, watermark_ms=0).run(until_end=True)
    assert [(o.op_id, o.outcome, o.at_ms) for o in feed.outcomes()] == [("o", "completed", 5)]
