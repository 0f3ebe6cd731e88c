"""What the pages answer a reader of the first weeks is what the code does."""

import asyncio
import functools
import math
import re
import threading
import time
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry

from purgatory import AsyncClient, Client, DelayedOperation, Purgatory, Worker
from purgatory.aio import AsyncPurgatory
from purgatory.service import Config, JobFailed, ServiceDaemon
from purgatory.service.auth.access import Access
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.errors import NotAllowed
from purgatory.service.protocol import Cancel, Complete, Query, Submit
from purgatory.service.server.limits.kind_limits import TokenBucket
from purgatory.service.server.reads.status_answers import MAX_LISTED, VALUE_BYTES
from purgatory.service.store.lease import SeenLease
from purgatory.service.store.postgres.sessions.server_addresses import addresses_of
from purgatory.testing import ManualPurgatory
from tests.test_docs import ROOT, text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import InlineExecutor, ManualClock, Timer

IN_MEMORY = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")


def test_turns_within_one_process():
    """howto/rate-limits.md: each tenth of a second the longest waiter has its turn."""
    with ManualPurgatory() as purgatory:
        purgatory.timer.every(0.1, lambda: purgatory.complete("turn", limit=1, hold=0.1))
        purgatory.advance(0.95)  # without a waiter one turn is kept, not nine
        turns = [purgatory.defer("turn", timeout=60) for _ in range(3)]
        assert [turn.done() for turn in turns] == [True, False, False]
        purgatory.advance(0.05)
        assert [turn.done() for turn in turns] == [True, True, False]
    assert "A purgatory hands out turns" in text_of("docs/howto/rate-limits.md")


def test_one_job_a_minute():
    """howto/rate-limits.md: a rate may be below one a second."""
    bucket = TokenBucket(1 / 60, 1, 0)
    assert bucket.next_ms(0) == 0
    bucket.add(-1.0)
    assert 60_000 <= bucket.next_ms(0) <= 60_001
    assert "**One a minute:** `per_second=1/60`" in text_of("docs/howto/rate-limits.md")


def test_turns_on_an_event_loop():
    """howto/rate-limits.md: the loop runs the callbacks of the purgatory's timer."""
    threads = []

    async def main():
        async with AsyncPurgatory() as p:

            def hand_out():
                threads.append(threading.current_thread())
                p.complete("turn", limit=1, hold=0.1)

            p.purgatory.timer.every(0.01, hand_out)
            await p.wait("turn")

    asyncio.run(main())
    assert set(threads) == {threading.main_thread()}
    assert "`p.purgatory.timer.every(...)`" in text_of("docs/howto/rate-limits.md")


def test_callbacks_and_tasks():
    """library.md: what the table of callbacks has."""
    clock, done = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())

    async def poll():
        done.append("polled")

    with pytest.raises(TypeError, match=r"callback is .*a coroutine function"):
        timer.every(10, poll)
    timer.schedule(1, functools.partial(done.append, 5))
    clock.advance(1)
    timer.advance_clock()
    assert done == [5]

    async def main():
        loop, polled = asyncio.get_running_loop(), asyncio.Event()

        async def poll():
            polled.set()

        with Timer() as timer:
            timer.every(0.01, lambda: asyncio.run_coroutine_threadsafe(poll(), loop))
            await asyncio.wait_for(polled.wait(), HANG)

    asyncio.run(main())
    left = Timer().schedule(5, print).when() - time.monotonic()
    assert 4 < left <= 5
    page = text_of("docs/library.md")
    for remedy in (
        "`functools.partial`",
        "`timer.every(10, lambda: asyncio.run_coroutine_threadsafe(poll(), loop))`",
        "`task.when() - time.monotonic()`",
    ):
        assert remedy in page


def test_the_longest_delay():
    """library.md: beyond 146 years it counts as 146 years, and infinity is refused."""
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    year = timedelta(days=365.25)
    assert timer.schedule(146 * year, print).when() == (146 * year).total_seconds()
    longest = timer.schedule(1000 * year, print).when()
    assert 146 * year < timedelta(seconds=longest) < 147 * year
    with pytest.raises(ValueError, match="inf"):
        timer.schedule(math.inf, print)
    with pytest.raises(ValueError, match="expected at most"):
        timer.schedule(147e6 * year.total_seconds(), print)
    timer.schedule(146e6 * year.total_seconds(), print)
    with ManualPurgatory() as purgatory:
        purgatory.defer("key", timeout=0)
        with pytest.raises(TypeError, match="None"):
            purgatory.defer("key", timeout=None)
    said = "from 0, neither infinity nor `None`; beyond 146 years it counts as 146 years, "
    assert f"{said}more than 146 million are an error" in text_of("docs/library.md")


def test_a_group_of_operations():
    """library.md: one more key of each stands for the group."""
    with Purgatory() as purgatory:
        mine = [purgatory.defer(f"paid:{n}", "customer:42", timeout=60) for n in range(2)]
        other = purgatory.defer("paid:3", "customer:43", timeout=60)
        assert len(purgatory.cancel_for_key("customer:42")) == 2
        assert [future.done() for future in (*mine, other)] == [True, True, False]
    assert "for a group give each operation one more key" in text_of("docs/library.md")


def test_a_check_that_raises():
    """library.md: the operation waits on, and a later check may complete it."""
    told = []

    class Paid(DelayedOperation):
        is_there = False

        def try_complete(self):
            if not self.is_there:
                raise ConnectionError("the database is away")
            return self.force_complete()

    with ManualPurgatory(on_error=lambda error, operation: told.append(operation)) as purgatory:
        paid = Paid(10)
        assert not purgatory.try_complete_else_watch(paid, ["paid:17"])
        assert purgatory.check_and_complete("paid:17") == 0
        assert set(told) == {paid}
        paid.is_there = True
        assert purgatory.check_and_complete("paid:17") == 1
    assert "an operation whose `try_complete` raises waits on" in text_of("docs/library.md")


def test_a_databases_clock_that_is_set():
    """high-availability.md: the next beat notes it, so a later holder goes on where this one is."""
    taken = SeenLease(7, 1, 0, "me", "tcp://a:7411", 50_000, drift_ms=0)
    lease = StoreLease(taken, 5.0, sent_ns=0, boot_ns=lambda: 0, on_lost=lambda: None)
    lease.saw(taken._replace(clock_ms=50_000, drift_ms=-3_600_000), lease.now_ms())
    reading = lease.read_clock()
    assert lease.now_ms() == reading.clock_ms == 50_000
    assert 3_600_000 <= reading.database_ms - reading.clock_ms <= 3_600_002
    statement = "Setting the database's clock moves deadlines only while no server is active."
    assert statement in text_of("docs/high-availability.md")


def test_the_worker_of_a_running_job():
    """service.md: the number of a connection."""
    began, end = threading.Event(), threading.Event()
    with ServiceDaemon(IN_MEMORY) as service:
        worker = Worker(service.server.address, name="shop")

        @worker.on("export")
        def export(job):
            began.set()
            end.wait(HANG)

        with worker, Client(service.server.address, name="shop") as client:
            job = client.schedule(0, kind="export")
            assert began.wait(HANG)
            eventually(lambda: job.status().state == "running")
            assert re.fullmatch("[0-9a-f]{10}", job.status().worker)
            end.set()
    assert "`worker` is the number of a connection" in text_of("docs/service.md")


def test_many_jobs_of_a_loop():
    """service.md: gathered coroutines are sent together."""

    async def main(address):
        async with AsyncClient(address, name="shop") as client:
            jobs = await asyncio.gather(*[client.schedule(60, kind="mail") for _ in range(100)])
            return len({job.id for job in jobs}), await client.job_counts()

    with ServiceDaemon(IN_MEMORY) as service:
        assert asyncio.run(main(service.server.address)) == (100, {("mail", "scheduled"): 100})
    assert "`asyncio.gather` many `schedule(...)`" in text_of("docs/service.md")


def test_which_programs_read_the_environment(monkeypatch):
    """service.md: the commands do; a client and a worker do not."""
    monkeypatch.setenv("PURGATORY_ADDRESS", "nonsense")
    with Client() as client:
        assert client.address == "tcp://127.0.0.1:7411"
    Worker(name="shop")
    statement = "`Client` and `Worker` read no environment variables"
    assert statement in text_of("docs/service.md")


def test_a_worker_has_no_name_by_default():
    """service.md: a client has a random one, which no worker has."""
    with Client() as one, Client() as another:
        assert one.name != another.name
    with pytest.raises(TypeError, match="name"):
        Worker()
    said = 'give the client the worker\'s name (`name="shop"`, `--name shop`)'
    assert f"{said}: by default it has a random one" in text_of("docs/service.md")


def test_whether_a_repeat_has_run():
    """howto/nightly-report.md: its last time is that of a job, not of a worker."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        assert client.repeat("nightly", every="1d", kind="report").run()
        [nightly], [job] = client.repeats(), client.jobs(tag="nightly")
        assert nightly.last is not None
        assert (job.state, job.attempts) == ("ready", 0)
        assert client.job(job.id).tags == ("nightly",)
    page = text_of("docs/howto/nightly-report.md")
    assert "have the time of the last job, also of one that no worker has run" in page


def test_the_names_of_two_purgatories_in_a_registry():
    """library.md: a name is there once; `close` frees it."""
    registry = CollectorRegistry()
    with Purgatory("orders", registry=registry):
        with pytest.raises(ValueError, match="name is 'orders'; expected one not yet in the reg"):
            Purgatory("orders", registry=registry)
        Purgatory("mails", registry=registry).close()
    Purgatory("orders", registry=registry).close()
    assert "unique in a registry" in text_of("docs/library.md")


def test_which_attempt_is_the_last():
    """service.md: `job.attempt` counts up to `max_attempts`."""
    attempts = []
    with ServiceDaemon(IN_MEMORY) as service:
        worker = Worker(service.server.address, name="shop")

        @worker.on("fax", max_attempts=2, retry_delay=0.01)
        def fax(job):
            attempts.append(job.attempt)
            raise RuntimeError("no paper")

        with worker, Client(service.server.address, name="shop") as client:
            with pytest.raises(JobFailed):
                client.schedule(0, kind="fax").result(HANG)
    assert attempts == [1, 2]
    assert "`job.attempt` counts up to `max_attempts`" in text_of("docs/service.md")


def test_which_payloads_a_list_leaves_out():
    """service.md, gateway.md: more than a page may have; asked for alone, each is there."""
    payload = "x" * 1000
    most = VALUE_BYTES // len(payload)
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        for _ in range(most + 1):
            client.defer("k", payload=payload)
            client.schedule_later(3600, kind="mail", payload=payload)
        client.flush()
        for rows, ask in (
            (list(client.list(with_jobs=False)), client.query),
            (list(client.jobs()), client.job),
        ):
            without = [each for each in rows if each.payload is None]
            assert 0 < len(without) < len(rows) == most + 1
            assert all((each.payload is None) == (each.left_out > 0) for each in rows)
            name = getattr(without[0], "op_id", None) or without[0].job_id
            assert ask(name).payload == payload
    said = f"has {VALUE_BYTES >> 10} KiB of payloads and results"
    assert f"A page, of {MAX_LISTED} at most, {said}" in text_of("docs/service.md")
    assert "payloads that it leaves out (`left_out` is not 0)" in text_of("docs/service.md")
    assert f"A page of a list {said}, and null for others" in text_of("docs/gateway.md")


def test_which_outcomes_the_last_client_gets():
    """service.md: of its name, but its own futures' alone; another's future gets its own, too."""
    got = []
    with ServiceDaemon(IN_MEMORY) as service:
        address = service.server.address
        with Client(address, name="shop", on_outcome=lambda one: got.append("first")) as first:
            assert first.complete("k") == 0  # it is connected
            with Client(address, name="shop", on_outcome=lambda one: got.append(one.op_id)) as last:
                own = last.defer("k", op_id="own")
                last.flush()
                others = first.defer("k", op_id="others")
                first.flush()
                assert last.complete("k", 1) == 2
                assert [own.result(HANG), others.result(HANG)] == [1, 1]
                eventually(lambda: got)
    assert got == ["others"]
    said = "gets all outcomes by `on_outcome` but those of its own futures"
    assert said in text_of("docs/service.md")


def test_a_key_that_only_looks():
    """service.md: it changes nothing, and takes the name of each client."""
    access = Access("auditor", (), ("read",))
    assert access.allows_name("shop")
    for request in (Submit, Complete, Cancel):
        with pytest.raises(NotAllowed):
            access.check_request(request(1, []))
    access.check_request(Query(1, []))
    assert "`--rights read --name '*'` changes nothing" in text_of("docs/service.md")


def test_parameters_of_libpq():
    """high-availability.md: the URL of a store takes them."""
    addresses = addresses_of("postgresql://a,b/purgatory?sslmode=verify-full", "x")
    assert len(addresses) == 2
    assert all(b"sslmode=verify-full" in address for address in addresses)
    assert "as `?sslmode=verify-full`" in text_of("docs/high-availability.md")


def test_what_the_gateway_does_not_have():
    """gateway.md: no header lets other sites read its answers."""
    files = (ROOT / "purgatory/service").rglob("*.py")
    assert [each for each in files if "access-control" in each.read_text().lower()] == []
    assert "it sends no CORS headers" in text_of("docs/gateway.md")
