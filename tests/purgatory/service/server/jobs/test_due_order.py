"""Jobs in the order in which they are due."""

import random

import pytest

from purgatory.service.server.jobs.due_order import MOST, DueOrder, place_of
from purgatory.service.server.records.job_record import JobRecord


def jobs_of(*dues):
    return [JobRecord(number, f"job-{number}", "c", "", due) for number, due in enumerate(dues, 1)]


def places(order, after=(-1, -1)):
    return [place_of(job) for job in order.after(*after)]


@pytest.mark.parametrize("spread_ms", [1, 50, 1000, 10**5, 10**7, 10**10])
def test_order(spread_ms):
    """By the moment, then by number, from any cursor on, however near or far jobs lie."""
    rng = random.Random(spread_ms)
    jobs = jobs_of(*[rng.randrange(spread_ms) for _ in range(4 * MOST)])
    order = DueOrder()
    for job in jobs:
        order.add(job)
    expected = sorted(map(place_of, jobs))
    assert places(order) == expected
    for at in rng.sample(range(len(jobs)), 20):
        assert places(order, expected[at]) == expected[at + 1 :]
    gone = set(rng.sample(range(len(jobs)), 3 * MOST))
    for at in gone:
        order.remove(jobs[at])
    left = [job for at, job in enumerate(jobs) if at not in gone]
    assert places(order) == sorted(map(place_of, left))
    assert order.length == len(left)
    for job in left:
        order.remove(job)
    assert places(order) == []
    assert not order._buckets
    assert not order._parts


def test_a_cursor_whose_job_has_gone():
    """The page goes on after the place."""
    order = DueOrder()
    for job in jobs_of(10, 20, 30):
        order.add(job)
    assert places(order, (20, 0)) == [(20, 2), (30, 3)]
    assert places(order, (25, 9)) == [(30, 3)]
