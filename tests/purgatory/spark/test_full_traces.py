"""Extensions, held and failed events: all engines agree in every column of every row.

`FULL_TRACES=200` compares as many random traces; the default takes seconds.
"""

import os
import random

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from purgatory.replay.engine import Replay
from purgatory.spark.batch.resolve import resolve
from purgatory.spark.tables.row_checks import check_events, check_extensions
from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS, SEQUENCE
from purgatory.trace import FAILED, Extension, KeyEvent, Operation, Outcome
from tests.testing.oracle import FullTrace
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined_full, random_full_traces

COUNT = int(os.environ.get("FULL_TRACES", "24"))
JITTER_MS = 5


def numbered(spark, rows, schema):
    """Return rows as a DataFrame with `seq`, their place."""
    sequenced = StructType([*schema, StructField(SEQUENCE, LongType())])
    return spark.createDataFrame([(*row, n) for n, row in enumerate(rows)], sequenced)


def resolved(spark, trace):
    """Return the outcomes of the batch, sorted."""
    frame = resolve(
        spark.createDataFrame(trace.operations, OPERATIONS),
        check_events(numbered(spark, trace.events, EVENTS)).good,
        check_extensions(numbered(spark, trace.extensions, EXTENSIONS)).good,
    )
    return sorted((Outcome(*row) for row in frame.collect()), key=repr)


def replayed(trace):
    """Return the outcomes of an in-process replay, sorted."""
    outcomes = []
    in_order = sorted(trace.events, key=lambda row: row.at_ms)
    extensions = sorted(trace.extensions, key=lambda row: row.at_ms)
    with Replay(on_outcome=outcomes.append) as replay:
        operations = sorted(trace.operations, key=lambda row: row.submitted_ms)
        replay.run(operations, in_order, extensions=extensions)
    return sorted(outcomes, key=repr)


def test_random_traces(spark):
    """Also with rows that are not in order of time."""
    wanted: list[Outcome] = []
    while len({row.outcome for row in wanted}) < 3:  # in one of five draws nothing fails
        trace = joined_full(random_full_traces(COUNT, in_order=False))
        wanted = expected(trace)
    assert wanted == replayed(trace)
    assert wanted == resolved(spark, trace)


def test_each_optional_table_and_column_may_be_absent(spark):
    """What is absent changes nothing for the rest."""
    operations = [Operation("a", "", 10, 5, ("k",)), Operation("b", "", 10, 5, ("l", "m"), 2)]
    events = [KeyEvent("k", 8, 2), KeyEvent("l", 11), KeyEvent("m", 20, 0, True)]
    extensions = [Extension("b", 15, 5)]
    operation_rows = spark.createDataFrame(operations, OPERATIONS)
    event_rows = numbered(spark, events, EVENTS)
    for absent in ((), ("hold_ms",), ("failed",), ("hold_ms", "failed")):
        defaults = {"hold_ms": 0, "failed": False}
        rest = [row._replace(**{name: defaults[name] for name in absent}) for row in events]
        for given in (extensions, []):
            frame = resolve(
                operation_rows,
                check_events(event_rows.drop(*absent)).good,
                numbered(spark, given, EXTENSIONS) if given else None,
            )
            got = sorted((Outcome(*row) for row in frame.collect()), key=repr)
            assert got == expected(FullTrace(operations, rest, given))


@pytest.mark.timeout(300)  # several micro-batches of a Spark that may be busy
def test_a_stream_of_random_traces_out_of_order(spark, tmp_path):
    """The stream agrees with the oracle, too, in micro-batches of rows that are out of order."""
    trace = joined_full(random_full_traces(COUNT, in_order=False))
    rng = random.Random(7)
    late_by = JITTER_MS
    jittered = FullTrace(
        sorted(trace.operations, key=lambda row: row.submitted_ms + rng.randint(0, late_by)),
        sorted(trace.events, key=lambda row: row.at_ms + rng.randint(0, late_by)),
        sorted(trace.extensions, key=lambda row: row.at_ms + rng.randint(0, late_by)),
    )
    feed = StreamInput(tmp_path)
    feed.put_trace(jittered, 3)
    entry = feed.stream(spark, watermark_ms=late_by, shards=2).run(until_end=True)
    assert expected(jittered) == feed.outcomes()
    assert (entry.pending, [n for f, n in entry.counts.items() if f.startswith("late")]) == (
        0,
        [0, 0, 0],
    )


def test_a_failed_operation_has_no_key(spark):
    """As one that expired."""
    trace = FullTrace([Operation("a", "", 10, 5, ("k",))], [KeyEvent("k", 12, 0, True)], [])
    (outcome,) = resolved(spark, trace)
    assert (outcome.outcome, outcome.at_ms, outcome.by_key) == (FAILED, 12, None)
