"""Steps of event time, DataFrame to DataFrame: cut anywhere, they add up to the oracle's answer."""

import random
from functools import reduce

import pytest
from pyspark.sql import DataFrame

from purgatory.spark.stream import transition
from purgatory.spark.tables.schema import OPERATIONS
from purgatory.trace import Outcome
from tests.testing.traces import expected, joined, random_traces


def kept(spark, events):
    """A table of events, in the order of the list."""
    return spark.createDataFrame(
        [(*row, "f", n) for n, row in enumerate(events)], transition.RETAINED_EVENTS
    )


@pytest.mark.parametrize("cuts", [[], [0, 4], [7, 19, 400]], ids=str)
def test_steps_add_up(spark, cuts):
    """However event time is cut, and in whatever order the rows lie."""
    operations, events = joined(random_traces(40, in_order=False))
    random.Random(1).shuffle(operations)
    waiting = transition.pending_operations(spark.createDataFrame(operations, OPERATIONS))
    done, before = [], -1
    for closed_ms in [*cuts, 10**9]:
        due = [row for row in events if before < row.at_ms <= closed_ms]
        advanced = transition.advance(
            transition.with_closed_ms(waiting, closed_ms), kept(spark, due)
        ).persist()
        done.append(transition.outcomes(advanced))
        waiting, before = transition.still_pending(advanced), closed_ms
    got = sorted((Outcome(*row) for row in _columns(reduce(DataFrame.unionAll, done))), key=repr)
    # The order of the list is that of the file.
    assert expected((operations, events)) == got
    assert waiting.count() == 0
    spark.catalog.clearCache()


def test_the_clock_parts_events_and_loses_none(spark):
    """The instant of the clock is over, the next one is not."""
    events = transition.with_closed_ms(kept(spark, [("a", 4), ("a", 5), ("a", 6)]), 5)
    assert [row.at_ms for row in transition.closed_events(events).collect()] == [4, 5]
    assert [row.at_ms for row in transition.retained_events(events).collect()] == [6]


def _columns(frame):
    return frame.select(*Outcome._fields).collect()
