"""The jobs and the workers of one client name."""

import pytest

from purgatory.service.protocol import Work
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.job_group import JobGroup
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.limits.kind_limits import KindLimits
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord


def due_job(number, kind="mail"):
    record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("ada"), "expired", 0)
    return DueJob(record, kind)


def add_worker(group, route, *kinds, room=10, detached=False):
    worker = group.workers[route] = WorkerConnection(route)
    worker.ask(Work(0, dict.fromkeys(kinds, 1), room, 1000, detached))
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
    """Without jobs that wait, and workers."""
    assert group.is_empty
    group.put(due_job(1))
    assert not group.is_empty


def test_a_job_that_waits_no_longer(group):
    """It is given to no one; a kind goes with its last job."""
    worker = add_worker(group, b"1", "mail")
    one, two, other = due_job(1), due_job(2), due_job(3, "bill")
    for job in (one, two, other):
        group.put(job)
    group.remove(one)
    group.remove(other)
    assert list(group.ready) == ["mail"]
    assert group.pop_for(worker, 0) is two
    assert group.pop_for(worker, 0) is None
    assert not group.ready
