"""Three engines, one result: replay, resolve and stream agree in every column of every row."""

import random

from pyspark.sql.types import LongType, StructField, StructType

from purgatory.replay.engine import Replay
from purgatory.spark.batch.resolve import resolve
from purgatory.spark.tables.schema import EVENTS, OPERATIONS, SEQUENCE
from purgatory.trace import Outcome
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

FILES = 4
JITTER_MS = 5


def jittered(trace, rng):
    """Return the rows in an order in which no row is further behind than JITTER_MS."""
    operations, events = trace
    return (
        sorted(operations, key=lambda row: row.submitted_ms + rng.randint(0, JITTER_MS)),
        sorted(events, key=lambda row: row.at_ms + rng.randint(0, JITTER_MS)),
    )


def replayed(trace):
    """Return the outcomes of an in-process replay, sorted."""
    operations, events = trace
    outcomes = []
    with Replay(on_outcome=outcomes.append) as replay:
        replay.run(
            sorted(operations, key=lambda row: row.submitted_ms),
            sorted(events, key=lambda row: row.at_ms),
        )
    return sorted(outcomes, key=repr)


def resolved(spark, trace):
    """Return the outcomes of the batch, sorted; `seq` numbers the events by their place."""
    operations, events = trace
    numbered = [(*event, place) for place, event in enumerate(events)]
    sequenced = StructType([*EVENTS, StructField(SEQUENCE, LongType())])
    frame = resolve(
        spark.createDataFrame(operations, OPERATIONS), spark.createDataFrame(numbered, sequenced)
    )
    return sorted((Outcome(*row) for row in frame.collect()), key=repr)


def test_two_hundred_random_traces(spark, tmp_path):
    """All three engines agree on ties, need=n, shared keys, zero timeouts and unordered input."""
    traces = random_traces(200, in_order=False)
    assert len(traces) >= 200
    trace = jittered(joined(traces), random.Random(3))
    wanted = replayed(trace)
    assert expected(trace) == wanted
    assert wanted == resolved(spark, trace)
    feed = StreamInput(tmp_path)
    feed.put_trace(trace, FILES)
    commits = []
    entry = feed.stream(spark, watermark_ms=JITTER_MS, on_commit=commits.append).run(until_end=True)
    assert wanted == feed.outcomes()
    assert len({commit.counts["completed"] for commit in commits} - {0}) >= 2
    assert entry.pending == entry.counts["late_operations"] == entry.counts["late_events"] == 0
