"""Jobs in the order in which they are due."""

import random
from collections import Counter

import pytest

from purgatory.service.server.jobs.due_order import FEW, MOST, DueOrder, NumberedOrder, place_of
from purgatory.service.server.jobs.number_order import block_of
from purgatory.service.server.records.job_record import JobRecord


def jobs_of(*dues):
    return [JobRecord(number, f"job-{number}", "c", "", due) for number, due in enumerate(dues, 1)]


def places(order, after=(-1, -1)):
    return [place_of(job) for job in order.after(*after)]


@pytest.mark.parametrize("spread_ms", [1, 2, 50, 1000, 10**5, 10**7, 10**10])
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


def leaves(order):
    """Return the sizes of all buckets: so many jobs a reader sorts at once."""
    sizes = [len(bucket) for bucket in order._buckets.values()]
    return sizes + [size for part in order._parts.values() for size in leaves(part)]


def test_many_that_are_due_at_one_time():
    """They are divided, too: a reader of a page does not sort all of them."""
    order = DueOrder()
    for job in jobs_of(*[7] * 20 * MOST):
        order.add(job)
    assert sum(leaves(order)) == order.length == 20 * MOST
    assert max(leaves(order)) <= 2 * MOST


def test_a_cursor_whose_job_has_gone():
    """The page goes on after the place."""
    order = DueOrder()
    for job in jobs_of(10, 20, 30):
        order.add(job)
    assert places(order, (20, 0)) == [(20, 2), (30, 3)]
    assert places(order, (25, 9)) == [(30, 3)]


def test_blocks():
    """They are those of the jobs that are in it, once there were many; few jobs have none."""
    dice, order, inside, most = random.Random(1), NumberedOrder(), [], 0
    for number in range(1, FEW + 3000):
        if inside and dice.random() < 0.1:
            order.remove(inside.pop(dice.randrange(len(inside))))
            continue
        inside.append(JobRecord(number * 7, f"{number}", "c", "k", dice.randrange(10**7)))
        order.add(inside[-1])
        most = max(most, len(inside))
        assert (order.blocks is None) == (most <= FEW)
    assert most > FEW
    assert order.blocks == Counter(block_of(job.number) for job in inside)
    by_due = sorted((job.due_ms, job.number) for job in inside)
    assert [(job.due_ms, job.number) for job in order.after(-1, -1)] == by_due
    for job in inside:
        order.remove(job)
    assert (order.blocks, order.length) == ({}, 0)
