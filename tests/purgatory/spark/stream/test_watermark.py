"""The watermark: how far event time is closed."""

import pytest

from purgatory.spark.stream.watermark import compute_closed_ms, newest_times
from purgatory.trace.rows import INT64_MIN

SOURCES = ("operations", "events")


def test_the_source_that_is_behind_decides():
    """All instants below its newest time, less the watermark, are closed."""
    newest = {"operations": 1_000, "events": 500}
    assert compute_closed_ms(newest, SOURCES, 100) == 399


def test_nothing_is_closed_before_both_sources_have_shown_a_row():
    """A source without rows may still be far behind."""
    assert compute_closed_ms({"operations": 1_000}, SOURCES, 0) == INT64_MIN


def test_closed_time_stays_within_64_bits():
    """A watermark may reach below the first instant that 64 bits hold."""
    newest = dict.fromkeys(SOURCES, INT64_MIN + 1)
    assert compute_closed_ms(newest, SOURCES, 600_000) == INT64_MIN


@pytest.mark.parametrize(
    ("seen", "newest"),
    [
        ({"operations": 5, "events": 7}, {"operations": 10, "events": 7}),
        ({"operations": 15, "events": None}, {"operations": 15}),
        ({"operations": None, "events": None}, {"operations": 10}),
    ],
)
def test_the_newest_time_of_a_source_never_goes_back(seen, newest):
    """Neither for older rows in a later micro-batch, nor for a micro-batch without rows."""
    assert newest_times({"operations": 10}, seen) == newest
