"""Jobs of one kind: by priority, then in order; none starves."""

import random

import pytest

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.ready_jobs import AGED_MS, ReadyJobs
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord


def make_job(number, priority=0, ready_ms=0):
    record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("ada"), "expired", 0)
    job = DueJob(record, "mail", priority=priority)
    job.ready_ms = ready_ms
    return job


@pytest.fixture
def ready():
    return ReadyJobs()


def take_all(ready, now_ms=0):
    found = []
    while (job := ready.pop(now_ms)) is not None:
        found.append(job.record.seq)
    assert ready.count == 0
    return found


def test_the_order(ready):
    """Higher priorities are first, and earlier arrivals, but for one that is put first."""
    for number, priority in enumerate([0, -10, 10, 0, 10, 3], 1):
        ready.put(make_job(number, priority))
    ready.put(make_job(7), first=True)
    assert ready.count == 7
    assert take_all(ready) == [3, 5, 6, 7, 1, 4, 2]


def test_none_starves(ready):
    """A job that is ready for ten minutes is taken as if it had the highest priority."""
    ready.put(make_job(1, -10, ready_ms=0))
    ready.put(make_job(2, 10, ready_ms=1))
    ready.put(make_job(3, 5, ready_ms=0))
    ready.put(make_job(4, 10, ready_ms=AGED_MS + 10))
    assert ready.pop(AGED_MS - 1).record.seq == 2
    assert take_all(ready, AGED_MS) == [3, 1, 4]


def test_one_that_is_put_first_delays_no_other(ready):
    """A job that has lost its lease is ready since then; those behind it for longer."""
    ready.put(make_job(1, ready_ms=0))
    ready.put(make_job(2, ready_ms=AGED_MS), first=True)
    ready.put(make_job(3, 10, ready_ms=AGED_MS))
    assert ready.oldest_ms() == 0
    assert take_all(ready, AGED_MS) == [2, 1, 3]


def test_jobs_that_leave(ready):
    """They are not taken, and leave no more behind than as many entries as wait."""
    jobs = [make_job(number, number % 3) for number in range(300)]
    for job in jobs:
        ready.put(job)
    for job in jobs[:-2]:
        ready.remove(job)
        assert sum(map(len, ready._levels.values())) <= 2 * ready.count + 65
    ready.put(jobs[0])
    assert take_all(ready) == [299, 298, 0]


def test_random_changes(ready):
    """Against a list: each job that waits is taken once, and no other one."""
    chance = random.Random(7)
    waiting, count = {}, 0
    for _ in range(5000):
        act = chance.random()
        if act < 0.5 or not waiting:
            count += 1
            job = waiting[count] = make_job(count, chance.choice((-1, 0, 4)))
            ready.put(job, first=chance.random() < 0.2)
        elif act < 0.7:
            job = waiting[chance.choice(list(waiting))]
            ready.remove(job)
            if chance.random() < 0.5:
                ready.put(job)
            else:
                del waiting[job.record.seq]
        else:
            job = ready.pop(0)
            assert job.priority == max(one.priority for one in waiting.values())
            del waiting[job.record.seq]
        assert ready.count == len(waiting)
    assert sorted(take_all(ready)) == sorted(waiting)
