"""The jobs and the workers of one client name."""

import random

import pytest

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.job_group import AGED_MS, JobGroup, ReadyJobs
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.limits.kind_limits import KindLimits
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord


def due_job(number, kind="mail"):
    record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("ada"), "expired", 0)
    return DueJob(record, kind)


def add_worker(group, route, *kinds, room=10, detached=False):
    worker = group.workers[route] = WorkerConnection(route, "ada")
    worker.ask(dict.fromkeys(kinds, 1), room, 1000, detached=detached)
    return worker


def numbers(given):
    return [(worker.route, job.record.seq) for worker, job in given]


@pytest.fixture
def group():
    return JobGroup(KindLimits())


def test_workers_take_turns(group):
    """One job each, up to the limit; the next call goes on with the next worker."""
    for route in (b"1", b"2"):
        add_worker(group, route, "mail")
    for number in range(1, 6):
        group.put(due_job(number))
    assert numbers(group.assign(3, 0)) == [(b"1", 1), (b"2", 2), (b"1", 3)]
    assert numbers(group.assign(9, 0)) == [(b"2", 4), (b"1", 5)]
    assert not group.ready


def test_kinds_take_turns(group):
    """A kind of which many wait does not keep another from the worker."""
    worker = add_worker(group, b"1", "mail", "bill")
    for number, kind in enumerate(["mail", "mail", "bill", "other"], 1):
        group.put(due_job(number, kind))
    found = [group.pop_for(worker, 0) for _ in range(4)]
    assert [job and job.record.seq for job in found] == [1, 3, 2, None]
    assert list(group.ready) == ["other"]


def test_a_job_put_first(group):
    """It is given out before those of its kind that wait already."""
    worker = add_worker(group, b"1", "mail")
    group.put(due_job(1))
    group.put(due_job(2), first=True)
    assert group.pop_for(worker, 0).record.seq == 2


@pytest.mark.parametrize("detached", [False, True])
def test_room(group, detached):
    """A worker holds so many jobs; a detached one is given so many, and holds none."""
    worker = add_worker(group, b"1", "mail", room=1, detached=detached)
    group.put(due_job(1))
    group.put(due_job(2))
    assert group.has_work(0)
    assert numbers(group.assign(9, 0)) == [(b"1", 1)]
    assert not group.has_work(0)
    assert list(worker.held) == ([] if detached else [1])
    assert worker.room == (0 if detached else 1)


def test_when_it_is_empty(group):
    """Without jobs that wait, workers and dead jobs."""
    assert group.is_empty
    group.dead[1] = due_job(1)
    assert not group.is_empty
    group.dead.clear()
    group.put(due_job(1))
    assert not group.is_empty


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
