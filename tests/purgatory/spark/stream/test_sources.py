"""The sources of a stream."""

import json
import random
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.spark.errors import SparkError, TableError
from purgatory.spark.session import temporary_settings
from purgatory.spark.stream.sources import (
    KAFKA,
    Source,
    check_stream_rows,
    directory_source,
    parse_messages,
    topic_source,
    wait_for_first_file,
)
from purgatory.spark.tables.line_parser import JSON
from purgatory.spark.tables.reader import PARQUET
from purgatory.spark.tables.row_checks import EVENTS_TABLE, OPERATIONS_TABLE
from purgatory.trace import KeyEvent, read_events
from tests.testing.hostile_tables import json_lines
from tests.testing.purgatory_harness import HANG


def test_a_directory_is_read_as_what_it_holds(spark, tmp_path):
    """Files that Spark ignores do not count; an empty directory awaits files of either format."""
    empty = directory_source(spark, str(tmp_path))
    assert (empty.format, dict(empty.options)) == (PARQUET, {"pathGlobFilter": "*.parquet"})
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".a.parquet.crc").touch()
    (tmp_path / "a.jsonl").touch()
    found = directory_source(spark, f"{tmp_path}/")
    assert (found.format, found.name, dict(found.options)) == (JSON, str(tmp_path), {})


@pytest.mark.parametrize(("name", "form"), [("a.parquet", PARQUET), ("a.jsonl", JSON)])
def test_the_first_file_decides_what_an_empty_directory_holds(spark, tmp_path, name, form):
    """The stream waits for it, and says so once; what Spark ignores is none."""
    (tmp_path / ".a.parquet.crc").touch()
    shown = []
    waiting = threading.Thread(
        target=wait_for_first_file,
        args=(spark, str(tmp_path), threading.Event(), shown.append),
        daemon=True,
    )
    waiting.start()
    waiting.join(0.3)  # longer than the time between two looks
    assert waiting.is_alive()
    (tmp_path / name).touch()
    waiting.join(HANG)
    assert not waiting.is_alive()
    assert shown == [f"waiting for a first file in {tmp_path}"]
    assert directory_source(spark, str(tmp_path)).format == form


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a.csv"], "a.csv is neither Parquet nor JSON by its name"),
        (["a.json", "b.parquet"], "has files of both formats"),
    ],
)
def test_a_directory_of_other_files_is_refused(spark, tmp_path, names, words):
    """A directory with mixed or other formats is refused, not read in part."""
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(TableError, match=words):
        directory_source(spark, str(tmp_path))


def test_a_directory_that_is_not_there_is_named(spark, tmp_path):
    """A missing directory raises, as the stream would wait for it without end."""
    with pytest.raises(TableError, match="/none: no such directory"):
        directory_source(spark, f"{tmp_path}/none")


@pytest.mark.parametrize("limit", [{}, {"maxFilesPerTrigger": "1"}])
def test_rows_of_a_directory(spark, tmp_path, limit):
    """They are awaited, of either format; a Parquet file is checked before."""
    for name in ("parquet", "jsonl"):
        (tmp_path / name).mkdir()
    (tmp_path / "jsonl" / "1.jsonl").write_text("no object\n")
    pq.write_table(pa.table({"key": ["a"], "at_ms": [5]}), tmp_path / "parquet" / "1.parquet")
    sources = [directory_source(spark, str(place)) for place in sorted(tmp_path.iterdir())]
    for source in sources:
        limited = Source(source.place, source.format, {**source.options, **limit})
        assert limited.rows(spark, EVENTS_TABLE).isStreaming
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "parquet" / "0.parquet")
    with pytest.raises(SparkError, match=r"0\.parquet: .*at_ms"):
        sources[1].rows(spark, EVENTS_TABLE)


@pytest.mark.parametrize(
    ("unit", "as_integers"), [("us", "false"), ("ns", "false"), ("ns", "true")]
)
def test_timestamps_are_refused(spark, tmp_path, unit, as_integers):
    """Read as integers, they would be taken for milliseconds. An empty file says nothing.

    A session reads nanoseconds as integers once it has read a table of them.
    """
    (tmp_path / "0.parquet").touch()
    times = pa.array([5], pa.int64()).cast(pa.timestamp(unit))
    pq.write_table(pa.table({"key": ["a"], "at_ms": times}), tmp_path / "1.parquet")
    source = directory_source(spark, str(tmp_path))
    setting = {"spark.sql.legacy.parquet.nanosAsLong": as_integers}
    words = "column at_ms holds timestamps; a stream reads .* int64"
    refused = pytest.raises(SparkError, match=rf"1\.parquet: .*{words}")
    with temporary_settings(spark, setting), refused:
        source.rows(spark, EVENTS_TABLE)


def test_without_the_connector_kafka_says_what_to_install(spark):
    """The error names Spark's Kafka connector, which is not part of Spark."""
    source = topic_source("events", "localhost:9092")
    with pytest.raises(SparkError, match=r"--packages org\.apache\.spark:spark-sql-kafka-0-10"):
        source.rows(spark, EVENTS_TABLE)


def test_a_topic_is_read_from_its_first_message():
    """The oldest message is the default start; options are passed on."""
    assert topic_source("t", "host:1").options["startingOffsets"] == "earliest"
    source = topic_source("t", "host:1", {"startingOffsets": "latest", "kafka.group.id": "g"})
    assert source == Source(
        "t",
        KAFKA,
        {
            "kafka.bootstrap.servers": "host:1",
            "startingOffsets": "latest",
            "kafka.group.id": "g",
        },
    )


def messages(spark, values):
    """Make rows like those of Spark's Kafka source."""
    values = [value.encode() if isinstance(value, str) else value for value in values]
    rows = [(value, "t", 3, offset) for offset, value in enumerate(values)]
    return spark.createDataFrame(
        rows, "value binary, topic string, partition int, offset bigint"
    ).coalesce(1)


def test_messages_are_objects_with_the_columns_of_the_table(spark):
    """Other messages are rejected, each with the reason and the message itself."""
    values = [
        json.dumps({"op_id": "o", "submitted_ms": 1, "timeout_ms": 2, "keys": ["a"], "x": 1}),
        json.dumps({"op_id": "o", "submitted_ms": "1", "timeout_ms": 2, "keys": ["a"]}),
        "[1]",
        "not JSON",
        None,
    ]
    rows = check_stream_rows(
        OPERATIONS_TABLE, parse_messages(messages(spark, values), OPERATIONS_TABLE)
    )
    good, *bad = rows.orderBy("place").collect()
    assert (good.op_id, good.kind, good.time_ms, good["keys"], good.need) == ("o", "", 1, ["a"], 1)
    assert (good.file, good.place, good.reason, good.row) == ("t-000003", 0, None, None)
    assert [row.reason for row in bad] == [
        "column submitted_ms: '1', expected an integer of 64 bits",
        *["the row cannot be taken apart"] * 3,
    ]
    assert [row.row for row in bad[1:]] == ["[1]", "not JSON", ""]


def test_hostile_messages_are_taken_as_lines_of_a_file(spark, tmp_path):
    """Of the values of Kafka's source the same are rejected as of the lines that a replay reads."""
    plain = b'{"key": "first", "at_ms": 1}'  # a byte order mark at the start of a file is dropped
    rows = [KeyEvent(f"k{number}", number, 0, False) for number in range(300)]
    lines = [plain, *json_lines(rows, random.Random(35)).split(b"\n")]
    values = [line for line in lines if line.strip()]
    (tmp_path / "e.jsonl").write_bytes(b"\n".join(values))
    bad = []
    with read_events(tmp_path / "e.jsonl", on_bad=bad.append) as events:
        wanted = [tuple(event)[:2] for event in events]
    found = check_stream_rows(EVENTS_TABLE, parse_messages(messages(spark, values), EVENTS_TABLE))
    found = found.orderBy("place").collect()
    assert len(bad) > 30
    assert [(row.key, row.time_ms) for row in found if row.reason is None] == wanted
    assert [row.place + 1 for row in found if row.reason] == [row.number for row in bad]


def test_messages_that_are_events(spark):
    """Their place is the offset in the partition, which orders events of one instant."""
    values = ['{"key": "a", "at_ms": 5}', '{"key": "b", "at_ms": null}']
    rows = check_stream_rows(EVENTS_TABLE, parse_messages(messages(spark, values), EVENTS_TABLE))
    found = [(row.key, row.time_ms, row.place, row.reason) for row in rows.collect()]
    assert found == [
        ("a", 5, 0, None),
        (None, None, 1, "column at_ms: nothing, expected an integer of 64 bits"),
    ]
