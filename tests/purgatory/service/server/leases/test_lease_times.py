"""When leases end: once each, and later if the server was absent."""

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.lease_times import LATE_MS, LeaseTimes
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord


def leased_job(number, until_ms, by_number):
    record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("ada"), "expired", 0)
    job = by_number[number] = DueJob(record, "mail")
    job.token, job.until_ms, job.holder = 10 * number, until_ms, WorkerConnection(b"w")
    return job


def test_each_lease_once():
    """At its end, in order; not one that was kept, or has another token by now."""
    by_number = {}
    times = LeaseTimes(by_number)
    one, two, kept, gone = (leased_job(n, 1000 + n, by_number) for n in range(4))
    for job in (two, one, kept, gone):
        times.watch(job)
    kept.until_ms = 2000
    gone.holder = None
    assert times.next_ms() == 1000
    assert times.ended(999, 0) == []
    assert times.ended(1003, 2) == [one, two]
    assert times.ended(1010, 0) == []
    assert times.next_ms() == 2000


def test_an_absence():
    """All leases last longer by it."""
    by_number = {}
    times = LeaseTimes(by_number)
    job = leased_job(1, 1000, by_number)
    times.watch(job)
    times.looked_ms = 900
    absent_ms = 5000
    assert times.ended(900 + absent_ms, 0) == []
    assert times.next_ms() == 1000 + absent_ms
    assert times.ended(1000 + absent_ms + LATE_MS, 0) == [job]
