"""What workers are told of their leases."""

import pytest

from purgatory.service.protocol import Lease
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.lease_notices import LeaseNotices
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord


def leased_job(number, route, *, begins=True, detached=False):
    record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("ada"), "expired", 0)
    job = DueJob(record, "mail")
    job.token = 10 * number
    job.holder = WorkerConnection(route)
    job.holder.ask({"mail": 1}, 1, 1000, detached=detached, begins=begins)
    return job


def test_one_message_for_each_worker():
    """With all of its leases, once; cancelled and recalled ones apart."""
    notices = LeaseNotices()
    assert not notices.leases
    for number, route, recall in (
        (1, b"1", False),
        (2, b"1", False),
        (3, b"1", True),
        (4, b"2", True),
    ):
        notices.add(leased_job(number, route), recall=recall)
    assert notices.leases
    assert [(route, told.recall, told.leases) for route, told in notices.take()] == [
        (b"1", False, [Lease(1, 10), Lease(2, 20)]),
        (b"1", True, [Lease(3, 30)]),
        (b"2", True, [Lease(4, 40)]),
    ]
    assert not notices.leases
    assert notices.take() == []


@pytest.mark.parametrize("others", [{"begins": False}, {"detached": True}])
def test_workers_that_are_not_told(others):
    """Those of earlier versions, and those whose connection says nothing of the worker."""
    notices = LeaseNotices()
    notices.add(leased_job(1, b"1", **others), recall=False)
    job = leased_job(2, b"1")
    job.holder = None
    notices.add(job, recall=False)
    assert not notices.leases
