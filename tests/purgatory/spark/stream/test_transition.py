"""Transitions of event time: cut anywhere, they add up to the oracle's outcomes."""

import random
from functools import reduce

import pytest
from pyspark.sql import DataFrame

from purgatory.spark.stream import transition
from purgatory.spark.stream.state import RETAINED_EVENTS
from purgatory.spark.stream.watermark import with_closed_ms
from purgatory.spark.tables.schema import OPERATIONS
from purgatory.trace import Outcome
from tests.testing.traces import expected, joined, random_traces


def events_frame(spark, events):
    """Return events as a DataFrame that keeps the order of the list."""
    return spark.createDataFrame(
        [(*row[:2], "f", n) for n, row in enumerate(events)], RETAINED_EVENTS
    )


@pytest.mark.parametrize("cuts", [[], [0, 4], [7, 19, 400]], ids=str)
def test_transitions_add_up(spark, cuts):
    """The outcomes do not depend on where event time is cut, nor on the order of the rows."""
    operations, events = joined(random_traces(40, in_order=False))
    random.Random(1).shuffle(operations)
    pending = transition.pending_operations(spark.createDataFrame(operations, OPERATIONS))
    done, before = [], -1
    for closed_ms in [*cuts, 10**9]:
        due = [row for row in events if before < row.at_ms <= closed_ms]
        advanced = transition.advance(
            with_closed_ms(pending, closed_ms), events_frame(spark, due)
        ).persist()
        done.append(transition.outcomes(advanced))
        pending, before = transition.still_pending(advanced), closed_ms
    got = sorted((Outcome(*row) for row in _columns(reduce(DataFrame.unionAll, done))), key=repr)
    # `events_frame` keeps the order of the list, as a file does.
    assert expected((operations, events)) == got
    assert pending.count() == 0
    spark.catalog.clearCache()


def test_each_event_is_either_closed_or_retained(spark):
    """The instant `closed_ms` is closed, the next one is retained."""
    events = with_closed_ms(events_frame(spark, [("a", 4), ("a", 5), ("a", 6)]), 5)
    assert [row.at_ms for row in transition.closed_events(events).collect()] == [4, 5]
    assert [row.at_ms for row in transition.retained_events(events).collect()] == [6]


def _columns(frame):
    return frame.select(*Outcome._fields).collect()
