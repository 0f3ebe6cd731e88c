"""Jobs in the order of their submission."""

import random

from purgatory.service.server.jobs.number_order import NumberOrder
from purgatory.service.server.records.job_record import JobRecord


def test_order():
    """The newest first, from any number on; blocks that are empty go."""
    order = NumberOrder()
    jobs = {number: JobRecord(number, f"job-{number}", "c", "", 0) for number in range(1, 5000, 3)}
    for job in jobs.values():
        order.add(job)
    for number in random.Random(1).sample(list(jobs), 1000):
        order.remove(jobs.pop(number))
    newest = sorted(jobs, reverse=True)
    assert [job.number for job in order.before(10**9)] == newest
    assert [job.number for job in order.before(2500)] == [n for n in newest if n < 2500]
    for job in jobs.values():
        order.remove(job)
    assert not order._blocks
