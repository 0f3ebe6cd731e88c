"""NumberedOrder: a DueOrder that knows in which blocks of numbers its jobs are."""

import random
from collections import Counter

from purgatory.service.server.jobs.number_order import block_of
from purgatory.service.server.jobs.numbered_order import FEW, NumberedOrder
from purgatory.service.server.records.job_record import JobRecord


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
