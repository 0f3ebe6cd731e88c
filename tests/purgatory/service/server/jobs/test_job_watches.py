"""Which connections are told of the ends of which jobs."""

from purgatory.service.errors import ServerBusy
from purgatory.service.server.jobs import job_watches
from purgatory.service.server.jobs.job_watches import JobWatches
from purgatory.service.server.records.job_record import JobRecord


def ended(watches, name):
    """Return the routes that are told of the end of a job."""
    watches.ended = []
    watches.note_end(JobRecord(1, name, "c", "", 0))
    return [route for _, routes in watches.ended for route in routes]


def test_ends():
    """Each connection that watches a job is told once."""
    watches = JobWatches()
    assert watches.add(b"1", ["a", "b", "a"]) is None
    assert watches.add(b"2", ["a"]) is None
    assert watches.count == 3
    assert ended(watches, "a") == [b"1", b"2"]
    assert ended(watches, "a") == []
    assert ended(watches, "b") == [b"1"]
    assert (watches.count, watches.bytes) == (0, 0)


def test_stop_and_forget():
    """Of what is not watched any more, nothing is told; nor of a connection that has gone."""
    watches = JobWatches()
    watches.add(b"1", ["a", "b"])
    watches.add(b"2", ["a"])
    watches.stop(b"1", ["a", "unknown"])
    watches.stop(b"3", ["a"])
    assert ended(watches, "a") == [b"2"]
    watches.forget(b"1")
    watches.forget(b"3")
    assert ended(watches, "b") == []
    assert (watches.count, watches.bytes) == (0, 0)
    assert not watches._by_route
    assert not watches._by_id


def test_whose_jobs():
    """A key that sees its client's jobs alone is told of no other's; the last request counts."""
    watches = JobWatches()
    watches.add(b"1", ["a", "b"], "d")
    watches.add(b"2", ["a"], "c")
    watches.add(b"3", ["a"])
    assert ended(watches, "a") == [b"2", b"3"]
    assert ended(watches, "b") == []
    watches.add(b"1", ["b"])
    assert ended(watches, "b") == [b"1"]
    watches.forget(b"1")
    assert (watches.count, watches.bytes) == (0, 0)


def test_bounds(monkeypatch):
    """A connection may watch so many jobs, and all of them so many."""
    monkeypatch.setattr(job_watches, "PER_CONNECTION", 2)
    monkeypatch.setattr(job_watches, "MOST", 3)
    watches = JobWatches()
    assert isinstance(watches.add(b"1", ["a", "b", "c"]), ServerBusy)
    assert watches.count == 0
    assert watches.add(b"1", ["a", "b"]) is None
    assert watches.add(b"1", ["a", "b"]) is None
    assert "3 more" not in str(watches.add(b"1", ["c"]))
    assert isinstance(watches.add(b"2", ["a", "b"]), ServerBusy)


def test_as_many_as_may_be(monkeypatch):
    """Those that are watched already do not count once more."""
    monkeypatch.setattr(job_watches, "PER_CONNECTION", 2)
    monkeypatch.setattr(job_watches, "MOST", 3)
    watches = JobWatches()
    assert watches.add(b"1", ["a", "b"]) is None
    assert watches.add(b"1", ["a", "b"]) is None
    assert watches.add(b"2", ["a"]) is None
    assert watches.add(b"2", ["a"]) is None
    for route, job_id in ((b"1", "c"), (b"3", "a")):
        assert isinstance(watches.add(route, [job_id]), ServerBusy)
    assert watches.count == 3
