"""How many ran at once, and what a limit would have done: against a simulation by steps."""

import random

import pytest

from purgatory.spark.report.content import Kind
from purgatory.spark.report.jobs.concurrency import effect_of_limit, limits_to_try, peak_of

MAIL = Kind(False, "mail")


def test_the_peak():
    """One that ends as another begins does not overlap with that."""
    assert peak_of([]) == 0
    assert peak_of([(0, 10), (10, 20), (20, 30)]) == 1
    assert peak_of([(0, 10), (9, 20), (9, 9), (19, 30)]) == 3


def test_limits_are_round_and_below_the_peak():
    """The three largest."""
    assert limits_to_try(1) == []
    assert limits_to_try(2) == [1]
    assert limits_to_try(37) == [5, 10, 20]


def stepwise(intervals, running):
    """Return the delays of the jobs, by looking at each millisecond."""
    waiting, ends, delays = list(intervals), [], {}
    now = 0
    while waiting:
        ends = [end for end in ends if end > now]
        while waiting and waiting[0][0] <= now and len(ends) < running:
            began, ended = waiting.pop(0)
            delays[len(delays)] = now - began
            ends.append(now + ended - began)
        now += 1
    return list(delays.values())


@pytest.mark.parametrize("seed", range(20))
def test_the_effect_of_a_limit(seed):
    """Jobs begin in order, as soon as the limit lets them."""
    rng = random.Random(seed)
    intervals = sorted((b, b + rng.randint(1, 30)) for b in rng.choices(range(200), k=60))
    for running in (1, 2, 5):
        delays = sorted(stepwise(intervals, running))
        effect = effect_of_limit(MAIL, intervals, running)
        assert effect.held == sum(delay > 0 for delay in delays) / 60
        assert (effect.p99_ms, effect.most_ms) == (delays[59], delays[-1])
    peak = peak_of(intervals)
    assert effect_of_limit(MAIL, intervals, peak) == (MAIL, peak, 0, 0, 0)
    assert effect_of_limit(MAIL, intervals, peak - 1).most_ms > 0
