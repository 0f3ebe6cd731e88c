"""A stream of topics, with a stand-in for Spark's Kafka source: its columns, and its offsets."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.spark.stream.query import Stream
from purgatory.spark.stream.sources import Source, topic_source
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

PARTITIONS = 2
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int"
)


def publish(path, topic, rows, number):
    """Put messages into the stand-in for a topic, one file a call.

    Those of one instant go to one partition: between partitions they would have no order.
    """
    values = [json.dumps(row._asdict()).encode() for row in rows]
    offsets = [number * 1000 + place for place in range(len(rows))]
    times = [getattr(row, "submitted_ms" if topic == "operations" else "at_ms") for row in rows]
    table = pa.table(
        {
            "value": pa.array(values, pa.binary()),
            "topic": [topic] * len(rows),
            "partition": pa.array([time % PARTITIONS for time in times], pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )
    staged = path / "staged.parquet"
    pq.write_table(table, staged)
    staged.rename(path / topic / f"{number}.parquet")


@pytest.mark.timeout(400)  # several micro-batches, on a machine that may be busy
def test_topics_give_the_outcomes_of_files(spark, tmp_path, monkeypatch):
    """A second run goes on where the first one stood; each topic has its own options."""
    given = {}

    def messages(source, spark):
        given[source.place] = source.options["startingOffsets"]
        return spark.readStream.schema(SCHEMA).parquet(str(tmp_path / source.place))

    monkeypatch.setattr(Source, "_messages", messages)
    feed = StreamInput(tmp_path)
    operations, events = trace = joined(random_traces(20))
    for number, until_end in enumerate([False, True]):
        half = slice(number * len(operations) // 2, (number + 1) * len(operations) // 2)
        publish(tmp_path, "operations", operations[half], number)
        half = slice(number * len(events) // 2, (number + 1) * len(events) // 2)
        publish(tmp_path, "events", events[half], number)
        stream = Stream(
            spark,
            topic_source("operations", "host:1"),
            topic_source("events", "host:1", {"startingOffsets": "latest"}),
            out=str(feed.out),
            checkpoint=str(feed.checkpoint),
            watermark_ms=10**6,
            shards=None if number else 1,
        )
        entry = stream.run(once=not until_end, until_end=until_end)
    assert given == {"operations": "earliest", "events": "latest"}
    assert entry.pending == 0
    assert expected(trace) == feed.outcomes()
