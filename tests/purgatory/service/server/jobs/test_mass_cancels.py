"""Cancellations of all jobs that match, in portions; see `test_control_requests`, too."""

import pytest

from purgatory.service.job_messages import CancelMatching, JobFilter
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.jobs import mass_cancels
from purgatory.service.server.jobs.job_index import NEWEST_START, JobIndex
from purgatory.service.server.jobs.mass_cancels import MassCancel, MassCancels
from purgatory.service.server.records.job_record import DONE, READY, JobRecord


def make(seq=1, last=100, session="s"):
    """Make a cancellation of the jobs of kind mail."""
    request = CancelMatching(seq, JobFilter(kind="mail"))
    return MassCancel(ClientRequest(b"r", "c", request, 1), request, session, last)


def portions(cancel, index):
    """Yield the jobs of each portion, until the end."""
    is_end = False
    while not is_end:
        jobs, cancel.after, is_end = cancel.next_jobs(index)
        yield jobs


@pytest.fixture
def index():
    """Jobs 1 to 9 of kind mail, due in this order."""
    made = JobIndex()
    for number in range(1, 10):
        made.add(JobRecord(number, f"job-{number}", "c", "mail", number))
    return made


def test_portions(index, monkeypatch):
    """Each goes on where the one before has ended; later jobs are left out."""
    monkeypatch.setattr(mass_cancels, "PORTION", 3)
    found = []
    for jobs in portions(make(last=7), index):
        assert len(jobs) <= 3
        found += [job.number for job in jobs]
    assert found == [7, 6, 5, 4, 3, 2, 1]


def test_jobs_that_are_moved_meanwhile(index, monkeypatch):
    """Each is found, at whatever time it is due now."""
    monkeypatch.setattr(mass_cancels, "PORTION", 3)
    found = []
    for jobs in portions(make(last=9), index):
        found += [job.number for job in jobs]
        for job in list(index.walk(JobFilter(), "newest", NEWEST_START)):
            index.move(job, READY, 100 - job.due_ms)
    assert sorted(found) == list(range(1, 10))


def test_looks_are_bounded(index, monkeypatch):
    """A portion may find nothing."""
    monkeypatch.setattr(mass_cancels, "LOOKED_AT", 2)
    for job in index.walk(JobFilter(), "newest", NEWEST_START):
        job.state = DONE
    assert make(last=9).next_jobs(index) == ([], (8, 8), False)


def test_a_transaction():
    """What it begins and does counts when it is on disk; rolled back, it counts nothing."""
    cancels = MassCancels()
    one, two = make(1), make(2)
    cancels.begun.append(one)
    assert cancels.find("s", 1) is one
    cancels.roll_back()
    assert cancels.find("s", 1) is None
    cancels.begun += [one, two]
    cancels.publish()
    assert cancels.running == [one, two]
    cancels.note((5, 5), 4, is_end=False)
    cancels.roll_back()
    cancels.publish()
    assert (one.after, one.count) != ((5, 5), 4)
    cancels.note((5, 5), 4, is_end=False)
    cancels.publish()
    assert (one.after, one.count) == ((5, 5), 4)
    assert cancels.running == [two, one]
    cancels.note((9, 9), 1, is_end=True)
    cancels.publish()
    assert (cancels.running, cancels.begun) == ([one], [])


def test_without_a_session():
    """A request without one is never taken for another."""
    cancels = MassCancels()
    cancels.begun.append(make(session=""))
    assert cancels.find("", 1) is None
