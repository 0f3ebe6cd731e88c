"""All jobs of a server, counted and in order."""

import pytest

from purgatory.service.job_messages import JobFilter
from purgatory.service.protocol import own_key
from purgatory.service.server.jobs.job_index import (
    DUE_START,
    NEWEST_START,
    JobIndex,
    matches,
)
from purgatory.service.server.records.job_record import (
    DEAD,
    DONE,
    READY,
    RUNNING,
    SCHEDULED,
    STATE_COUNT,
    JobRecord,
)
from purgatory.service.store.rows import Options


def add(index, number, kind="mail", due_ms=0, tags=(), client="c"):
    """Add a job to an index; returns the job."""
    options = Options(0, tags) if tags else None
    job = JobRecord(number, f"job-{number}", client, kind, due_ms, options)
    index.bytes += 1000
    index.add(job)
    return job


def found(index, order="due", **wanted):
    """Return the numbers of the jobs that match, in order."""
    wanted = JobFilter(**wanted)
    start = DUE_START if order == "due" else NEWEST_START
    return [one.number for one in index.walk(wanted, order, start) if matches(wanted, None, one)]


@pytest.fixture
def index():
    return JobIndex()


def test_counts(index):
    """By kind and state; a kind without jobs is forgotten."""
    one, two = add(index, 1), add(index, 2)
    index.set_state(two, READY)
    assert index.counts == {"mail": [1, 1, 0, 0, 0, 0, 0]}
    index.set_state(two, READY)
    index.move(two, DEAD, 7)
    assert index.counts == {"mail": [1, 0, 0, 0, 0, 1, 0]}
    index.remove(one)
    index.remove(two)
    assert index.counts == {}


def test_filters(index):
    """Each field of a filter, and several of them, in both orders."""
    add(index, 1, "mail", 30, ("a", "b"))
    add(index, 2, "mail", 20, ("b",))
    add(index, 3, "bill", 10, client="d")
    index.set_state(add(index, 4, "bill", 15), RUNNING)
    assert found(index) == [3, 4, 2, 1]
    assert found(index, "newest") == [4, 3, 2, 1]
    assert found(index, kind="mail") == [2, 1]
    assert found(index, "newest", kind="mail") == [2, 1]
    assert found(index, tag="b") == [2, 1]
    assert found(index, tag="b", kind="bill") == []
    assert found(index, state="running") == [4]
    assert found(index, client="d") == [3]
    assert found(index, state="scheduled", kind="bill") == [3]
    assert found(index, tag="unknown") == []


@pytest.mark.parametrize("state", range(STATE_COUNT))
def test_keys_of_a_loaded_job(index, state):
    """Those of `unless` can cancel a job that has not ended; a job's own key is none of them."""
    for number, keys in ((1, ("k", own_key("job-1"))), (2, (own_key("job-2"),))):
        job = JobRecord(number, f"job-{number}", "c", "mail", 0)
        job.keys, job.state = keys, state
        index.add(job)
    assert {key: [*jobs] for key, jobs in index.by_key.items()} == (
        {"k": [1]} if state < DONE else {}
    )


def test_moving(index):
    """A job that is due at another time is found there, by each way to look."""
    job = add(index, 1, "mail", 10, ("a",))
    add(index, 2, "mail", 20, ("a",))
    index.move(job, SCHEDULED, 30)
    for wanted in ({}, {"kind": "mail"}, {"tag": "a"}, {"state": "scheduled"}):
        assert found(index, **wanted) == [2, 1]


def test_forgetting(index):
    """A forgotten job is in no order, and its memory is given back."""
    index.remove(add(index, 1, tags=("a",)))
    assert found(index, tag="a") == found(index) == found(index, "newest") == []
    assert not index._by_tag
    assert index.bytes < 1000


def test_the_newest_of_many(index):
    """They are looked for among all jobs."""
    for number in range(1, 12_001):
        add(index, number, "even" if number % 2 == 0 else "odd", -number)
    assert found(index, "newest", kind="even")[:3] == [12_000, 11_998, 11_996]


@pytest.mark.parametrize("wanted", [{"state": "dead"}, {"kind": "old"}, {"tag": "t"}])
def test_the_newest_of_many_among_more(index, wanted):
    """No other jobs are looked at but those submitted at about the same time."""
    for number in range(1, 6001):
        index.set_state(add(index, number, "old", tags=("t",)), DEAD)
    for number in range(6001, 20_000):
        add(index, number)
    looked = index.walk(JobFilter(**wanted), "newest", NEWEST_START)
    numbers = [job.number for job, _ in zip(looked, range(1200), strict=False)]
    assert [number for number in numbers if number <= 6000][:50] == list(range(6000, 5950, -1))
    assert found(index, "newest", **wanted) == list(range(6000, 0, -1))


def test_scheduled_beyond_ready(index):
    """Both are in one order; each is listed apart, and the ready ones are not looked through."""
    jobs = [add(index, number, due_ms=1000 * number) for number in range(1, 101)]
    for job in jobs[:50]:
        index.set_state(job, READY)
    assert found(index, state="ready") == list(range(1, 51))
    assert found(index, state="scheduled") == list(range(51, 101))
    looked = list(index.walk(JobFilter(state="scheduled"), "due", DUE_START))
    assert len(looked) <= 52
    assert found(index) == list(range(1, 101))
    index.set_state(jobs[0], SCHEDULED)
    assert index.counts["mail"][:2] == [51, 49]


@pytest.mark.parametrize("due_ms", [30, 3])
def test_the_keys_of_a_dead_job_that_lives_again(index, due_ms):
    """They cancel the job as before, also if its time changes meanwhile; then it may die again."""
    job = JobRecord(1, "job-1", "c", "mail", 30)
    job.keys = ("k",)
    index.add(job)
    for _ in range(2):
        assert list(index.by_key) == ["k"]
        index.set_state(job, DEAD)
        assert index.by_key == {}
        index.move(job, READY, due_ms)
