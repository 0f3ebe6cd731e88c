"""What time limits would have done."""

from purgatory.spark.report.content import EndCount, Kind
from purgatory.spark.report.jobs.time_limits import (
    effect_of_time_limit,
    limit_above_all,
    limits_to_try,
    quantiles_of_done,
    round_limit,
)

MAIL = Kind(False, "mail")
RUNS = [EndCount(80, 990, 0, 0), EndCount(900, 10, 1, 0), EndCount(60_000, 0, 2, 1)]


def test_limits_are_rounded_up():
    """To what a person would write."""
    assert [round_limit(ms) for ms in (1, 100, 101, 61_000, 90_000_000)] == [
        *(100, 100, 200, 120_000, 172_800_000)
    ]


def test_the_effect():
    """Jobs that would not be done, and time that failed attempts would not have taken."""
    assert effect_of_time_limit(MAIL, RUNS, 500) == (MAIL, 500, 10, 400 + 3 * 59_500)
    assert effect_of_time_limit(MAIL, RUNS, 900) == (MAIL, 900, 0, 3 * 59_100)
    assert effect_of_time_limit(MAIL, RUNS, 60_000) == (MAIL, 60_000, 0, 0)


def test_limits_that_are_tried():
    """Those of nearly all jobs that were done; none if none was."""
    assert limits_to_try(RUNS) == [100, 1000]
    assert limit_above_all(RUNS) == 2000
    assert quantiles_of_done(RUNS, (0.5, 1.0)) == (80, 900)
    assert limits_to_try(RUNS[2:]) == []
    assert limit_above_all(RUNS[2:]) is None
