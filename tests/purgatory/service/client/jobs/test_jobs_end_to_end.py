"""Clients that schedule jobs and wait for them, with servers and workers in this process."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from purgatory.service import (
    AsyncClient,
    Client,
    JobCancelled,
    JobFailed,
    JobUnknown,
    Worker,
)
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG

# Within a year, as the server demands; whole milliseconds.
LATER = (datetime.now(UTC) + timedelta(days=100)).replace(microsecond=0)
VALUES = [0, 1, 127, -1, 300, True, False, None, "", "ä", [], {}, {"x": [1.5, None]}, b"\x00"]


@contextlib.contextmanager
def working(address, **handlers):
    """Run a worker of the client "shop" with a handler for each kind."""
    worker = Worker(address, name="shop", max_attempts=1)
    for kind, handler in handlers.items():
        worker.on(kind)(handler)
    with worker:
        yield worker


def echo(job):
    return job.payload


def fail(job):
    raise ValueError("no such address")


@pytest.fixture
def shop(server, connect):
    """A client "shop"."""
    return connect(server, name="shop")


def test_results(server, shop, connect):
    """Each value comes as it was, to the client that scheduled the job and to others, later too."""
    with working(server.address, echo=echo):
        jobs = [shop.schedule(0, kind="echo", payload=value) for value in VALUES]
        assert [job.result(HANG) for job in jobs] == VALUES
    other = connect(server, name="shop")
    assert [other.result(job.id, HANG) for job in jobs] == VALUES
    assert [other.job(job.id).result for job in jobs] == VALUES
    assert {type(job.result()) for job in jobs[5:7]} == {bool}


def test_a_job_that_fails(server, shop):
    """The error of its last attempt comes; retried, the job has a result."""
    job = shop.schedule(0, kind="mail", job_id="a")
    with working(server.address, mail=fail), pytest.raises(JobFailed) as caught:
        job.result(HANG)
    assert (caught.value.attempts, caught.value.error) == (1, "ValueError: no such address")
    assert job.status().state == "dead"
    assert [each.id for each in shop.jobs(state="dead", kind="mail")] == ["a"]
    assert job.retry()
    with working(server.address, mail=echo):
        assert job.result(HANG) is None


def test_a_job_that_is_dropped(server, shop):
    """It is forgotten."""
    job = shop.schedule(0, kind="mail", job_id="a")
    with working(server.address, mail=fail), pytest.raises(JobFailed):
        job.result(HANG)
    assert job.drop()
    assert not job.drop()
    with pytest.raises(JobUnknown):
        job.result(HANG)
    assert job.status() is None


def test_cancelling(shop, connect, server):
    """A waiting caller learns the reason: a request, or the key."""
    with ThreadPoolExecutor() as pool:
        job = shop.schedule("1h", job_id="a")
        waits = pool.submit(job.result, HANG)
        assert connect(server, name="shop").cancel_job("a")
        with pytest.raises(JobCancelled, match="job 'a' was cancelled"):
            waits.result(HANG)
        assert not job.cancel()
        job = shop.schedule("1h", job_id="b", unless=["paid:17"])
        waits = pool.submit(job.result, HANG)
        assert shop.complete("paid:17") == 1
        with pytest.raises(JobCancelled, match="paid:17"):
            waits.result(HANG)
    assert job.status().state == "cancelled"


def test_over_a_restart(serve, connect):
    """A wait goes on, with one server after the other, and ends with the result."""
    first = serve()
    shop = connect(first, name="shop")
    with ThreadPoolExecutor() as pool:
        waits = [pool.submit(shop.schedule(0, kind="echo", payload=n).result, HANG) for n in (1, 2)]
        shop.stats()
        address = first.address
        first.close()
        serve(bind=address)
        with working(address, echo=echo):
            assert [wait.result(HANG) for wait in waits] == [1, 2]


def test_many_waits(server):
    """A thousand waits of an event loop take few messages, and none is lost."""

    async def main():
        async with AsyncClient(server.address, name="shop", timeout=HANG) as client:
            jobs = await asyncio.gather(
                *[client.schedule(0.2, kind="echo", payload=n) for n in range(1000)]
            )
            before = (await client.stats())["messages"]
            results = await asyncio.gather(*[job.result(HANG) for job in jobs])
            assert results == list(range(1000))
            assert (await client.stats())["messages"] - before < 600  # those of the worker, too
            assert await jobs[7].result() == 7

    with working(server.address, echo=echo):
        asyncio.run(main())


def test_moving(shop):
    """Jobs are moved and run while they wait; then no more."""
    job = shop.schedule("1h", job_id="a")
    assert job.reschedule(at=LATER)
    assert job.status().due == LATER
    assert shop.reschedule_job(job, timedelta(hours=2))
    assert job.status().state == "scheduled"
    assert job.run()
    eventually(lambda: job.status().state == "ready")  # in one of the server's next steps
    assert shop.job_counts() == {("", "ready"): 1}
    assert not shop.run_job("unknown")


def test_at_and_options(shop):
    """A job at a moment, with all that a job can have."""
    shop.schedule(at=LATER, job_id="a", kind="mail", tags=["t", "u"], unless=["k"], priority=3)
    job = shop.job("a")
    assert (job.due, job.kind, sorted(job.tags), job.unless) == (LATER, "mail", ["t", "u"], ("k",))
    assert (job.priority, job.client, job.state) == (3, "shop", "scheduled")
    again = shop.schedule(5, job_id="a", kind="other")
    assert not again.is_new
    assert shop.job("a").kind == "mail"


def test_a_job_is_an_operation(shop):
    """Its handle names the operation, too."""
    job = shop.schedule("1h", job_id="a")
    assert shop.query(job).op_id == "a"
    assert shop.cancel(job)
    assert shop.query(job).state == "cancelled"


def test_listing(shop):
    """All pages come, in both orders; filters select."""
    for n in range(25):
        shop.schedule_later(1000 - n, job_id=f"{n}", kind=f"k{n % 2}", tags=[f"t{n % 5}"])
    shop.flush()
    assert [job.id for job in shop.jobs()] == [f"{n}" for n in reversed(range(25))]
    newest, cursor = [], None
    while True:
        page = shop.jobs_page(order="newest", limit=7, cursor=cursor)
        newest += [job.id for job in page.jobs]
        cursor = page.after
        if cursor is None:
            break
    assert newest == [f"{n}" for n in reversed(range(25))]
    assert {job.id for job in shop.jobs(tag="t3", kind="k1")} == {"3", "13", "23"}
    assert len(list(shop.jobs(limit=3))) == 3
    assert shop.cancel_jobs(tag="t3", kind="k1") == 3
    assert shop.job_counts() == {
        ("k0", "scheduled"): 13,
        ("k1", "scheduled"): 9,
        ("k1", "cancelled"): 3,
    }


def test_a_running_job_is_cancelled(server, shop):
    """The handler is told; the job ends as the handler does."""

    def work(job):
        assert job.cancelled.wait(HANG)
        if job.payload == "fail":
            raise ValueError("stopped")
        return "in time"

    with working(server.address, work=work):
        for payload in ("fail", "end"):
            job = shop.schedule(0, kind="work", payload=payload)
            eventually(lambda job=job: job.status().state == "running")
            assert not job.run()
            assert not job.reschedule("1h")
            assert job.cancel()
            if payload == "end":
                assert job.result(HANG) == "in time"
            else:
                with pytest.raises(JobCancelled):
                    job.result(HANG)


def test_limits(shop):
    """Kinds are paused and limited; limits are listed."""
    shop.pause("mail")
    shop.limit("print", running=2, per_second=0.5)
    limits = {each.kind: each for each in shop.limits()}
    assert limits["mail"].paused
    assert (limits["print"].running, limits["print"].per_second) == (2, 0.5)
    shop.resume("mail")
    shop.limit("print", running=0)
    shop.limit("print", per_second=0)
    assert [each for each in shop.limits() if each.paused or each.running or each.per_second] == []


def test_an_unknown_job(server):
    """A wait for a job that no server knows ends at once."""
    with Client(server.address, timeout=HANG) as client, pytest.raises(JobUnknown):
        client.result("unknown", HANG)
