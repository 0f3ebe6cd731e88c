"""What the pages answer to questions of users and operators is what the code does."""

import asyncio
import inspect
import json
import logging
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry

import mq
from purgatory import (
    AsyncClient,
    Client,
    KeyedOperation,
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    Worker,
    WrongEventLoop,
)
from purgatory.aio import AsyncPurgatory
from purgatory.cli.entry_point import misspelt
from purgatory.cli.process import JsonFormatter
from purgatory.cron.zones import zone
from purgatory.service import Config, JobCancelled, ServiceDaemon
from purgatory.service.client.client import CLOSE_TIMEOUT_S
from purgatory.service.gateway.messages import TakeRequest
from purgatory.service.http.listening import BoundedProtocol
from purgatory.service.http.metrics import job_timing_metrics
from purgatory.service.server.jobs.job_timings import JobTimings
from purgatory.service.server.records.job_record import DONE
from purgatory.testing import ManualPurgatory
from tests.test_docs import environment, text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import InlineExecutor, ManualClock, Timer

IN_MEMORY = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")


def test_other_clocks_that_are_moved(monkeypatch):
    """howto/testing.md: a timer reads the monotonic clock alone, which time-machine leaves."""
    fired = []
    timer = Timer(executor=InlineExecutor())
    timer.schedule(60, fired.append, 1)
    in_an_hour = time.time_ns() + 3_600_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: in_an_hour)
    monkeypatch.setattr(time, "time", lambda: in_an_hour / 1e9)
    timer.advance_clock()
    assert fired == []
    assert "but not time-machine" in text_of("docs/howto/testing.md")


def test_urgent_waiters():
    """howto/rate-limits.md: a key of theirs gets the turn first."""
    with ManualPurgatory() as purgatory:
        purgatory.timer.every(
            0.1,
            lambda: (
                purgatory.complete("urgent", limit=1)
                or purgatory.complete("turn", limit=1, hold=0.1)
            ),
        )
        first, urgent = purgatory.defer("turn"), purgatory.defer("urgent")
        purgatory.advance(0.1)
        assert (first.done(), urgent.done()) == (False, True)
        purgatory.advance(0.1)
        assert first.done()
    page = text_of("docs/howto/rate-limits.md")
    assert '`purgatory.complete("urgent", limit=1) or purgatory.complete("turn", limit=1' in page


def test_an_interval_shorter_than_a_tick():
    """library.md: runs are skipped and counted."""
    clock, ran = ManualClock(), []
    timer = Timer(tick_ms=1, clock=clock, executor=InlineExecutor())
    recurring = timer.every(0.0004, ran.append, 1)
    for _ in range(10):
        clock.advance(0.001)
        timer.advance_clock()
    assert len(ran) + recurring.skipped == 25
    assert recurring.skipped >= 10
    assert "the interval is shorter than a tick (0.2 ms), runs are skipped" in text_of(
        "docs/library.md"
    )


def test_waits_within_callbacks():
    """library.md: other threads bring the end, unless the pool has one thread only."""
    ends = []

    def wait(purgatory, seconds):
        ended = threading.Event()

        def on_end(_):
            ends.append(purgatory.defer("inner", timeout=0.01).exception(seconds))
            ended.set()

        purgatory.defer("outer", timeout=0.01).add_done_callback(on_end)
        return ended

    with Purgatory() as purgatory:
        assert wait(purgatory, HANG).wait(HANG)
    assert isinstance(ends.pop(), OperationExpired)
    with ThreadPoolExecutor(1) as pool, Timer(executor=pool) as timer:
        with Purgatory(timer=timer) as purgatory:
            assert not wait(purgatory, 0.1).wait(0.2)
    assert "It may wait in `result`, but not for an end that its own thread must bring" in text_of(
        "docs/library.md"
    )


def test_a_callback_that_exits(caplog):
    """library.md: the error is logged, and other tasks run."""
    ran = threading.Event()
    with Timer() as timer:
        timer.schedule(0, sys.exit, 3)
        timer.schedule(0.01, ran.set)
        assert ran.wait(HANG)
    # A worker of an earlier test may say that its client is closed.
    told = [record for record in caplog.records if record.name.startswith("timingwheel")]
    assert [record.exc_info[0] for record in told] == [SystemExit]
    assert "| a task of a timer, `SystemExit` too |" in text_of("docs/library.md")


def test_a_purgatory_that_is_dropped():
    """library.md: if it was started, it runs on."""
    purgatory = Purgatory("dropped")
    purgatory.start()
    future, timer = purgatory.defer("reply", timeout=0.01), purgatory.timer
    del purgatory
    assert isinstance(future.exception(HANG), OperationExpired)
    timer.close()
    assert "A started purgatory that the program drops runs on" in text_of("docs/library.md")


def test_the_seconds_left_of_an_operation():
    """library.md: an operation is a task; a future has no `when`."""
    with ManualPurgatory() as purgatory:
        operation = KeyedOperation(timeout=30)
        purgatory.try_complete_else_watch(operation, ["reply"])
        assert operation.when() == 30
        assert not hasattr(purgatory.defer("reply"), "when")
    assert "of a task or an operation; a future does not tell" in text_of("docs/library.md")


def test_a_closed_purgatory_does_not_start():
    """tutorial.md: a later `start` raises."""
    purgatory = Purgatory()
    purgatory.close()
    with pytest.raises(PurgatoryClosed):
        purgatory.start()
    assert "later calls of `start`, `defer` or `complete`" in text_of("docs/tutorial.md")


def test_a_bound_of_all_attempts():
    """service.md: `job.due_ms` is the same in each attempt, so a handler can give the job up."""
    due = []
    with ServiceDaemon(IN_MEMORY) as service:
        worker = Worker(service.server.address, name="shop")
        with Client(service.server.address, name="shop") as client:

            @worker.on("mail", retry_delay=0.01)
            def mail(job):
                due.append(job.due_ms)
                if job.attempt == 3:
                    client.cancel_job(job.id)
                raise ConnectionError("no answer")

            with worker, pytest.raises(JobCancelled):
                client.schedule(0, kind="mail").result(HANG)
    assert len(due) == 3
    assert len(set(due)) == 1
    assert "compare the time with `job.due_ms`, which stays the same" in text_of("docs/service.md")


def test_figures_without_prometheus():
    """service.md: `purgatory stats --json` prints them in a line."""
    with ServiceDaemon(IN_MEMORY) as service:
        shown = subprocess.run(
            [sys.executable, "-m", "purgatory", "stats", "--json"],
            capture_output=True,
            check=True,
            env=environment() | {"PURGATORY_ADDRESS": service.server.address},
            timeout=60,
        ).stdout
    assert json.loads(shown)["ready"] == 1
    assert shown.count(b"\n") == 1
    assert "| `purgatory stats --json` | without Prometheus:" in text_of("docs/service.md")


def test_a_repeat_of_a_paused_kind():
    """howto/nightly-report.md: one run waits, and later ones are skipped."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        client.pause("report")
        client.repeat("often", every="10ms", kind="report")
        eventually(lambda: client.repeats()[0].skipped >= 2)
        assert client.job_counts() == {("report", "ready"): 1}
    assert "no run begins while one is ready (as of a paused kind)" in text_of(
        "docs/howto/nightly-report.md"
    )


def test_the_gateway_logs_no_requests():
    """gateway.md: a proxy does. What the loggers get: `http/test_listening.py`."""
    assert "self.access_log = False" in inspect.getsource(BoundedProtocol)
    assert "no request is logged: let a proxy do both" in text_of("docs/gateway.md")


def test_a_worker_within_a_loop():
    """service.md: its stop runs in a thread, and the loop goes on."""

    async def main(address):
        worker = Worker(address, name="shop")
        worker.on("mail")(str)
        worker.start()
        async with AsyncClient(address, name="shop") as client:
            await (await client.schedule(0, kind="mail")).result(HANG)
        await asyncio.to_thread(worker.stop)

    with ServiceDaemon(IN_MEMORY) as service:
        asyncio.run(main(service.server.address))
    assert "`await asyncio.to_thread(worker.stop)`" in text_of("docs/service.md")


def test_what_a_cancelled_future_raises():
    """tutorial.md: the error says whether the future or its operation was cancelled."""
    with Purgatory() as purgatory:
        future, operation = purgatory.defer("reply"), purgatory.defer("connection")
        assert future.cancel()
        purgatory.cancel_for_key("connection")
        with pytest.raises(CancelledError):
            future.result()
        assert isinstance(operation.exception(), OperationCancelled)
    statement = "raises `OperationCancelled`, after `future.cancel()` a `CancelledError`;"
    assert statement in text_of("docs/tutorial.md")


def test_a_pause_that_a_job_ends():
    """howto/rate-limits.md: the job is of another kind, so it runs during the pause."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop")
        worker.on("partner")(lambda job: "called")
        worker.on("resume")(lambda job: client.resume(job.payload))
        client.pause("partner")
        waiting = client.schedule(0, kind="partner")
        with worker:
            client.schedule(0.05, kind="resume", payload="partner")
            assert waiting.result(HANG) == "called"
    statement = "which lasts until `resume`: let a job of another kind call that at its time"
    assert statement in text_of("docs/howto/rate-limits.md")


def test_cancelling_many_operations():
    """service.md: each in the list, which has jobs, too."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        waits = [client.defer(f"paid:{n}", kind="order") for n in range(3)]
        client.flush()
        job = client.schedule(60, kind="order")
        assert job.id in [each.op_id for each in client.list(kind="order")]
        operations = client.list(kind="order", with_jobs=False)
        assert [client.cancel(each.op_id) for each in operations] == [True] * 3
        assert all(isinstance(each.exception(HANG), OperationCancelled) for each in waits)
        assert job.status().state == "scheduled"
    page = text_of("docs/service.md")
    assert "and jobs unless `with_jobs=False`;" in page
    assert "To cancel many operations, cancel each in the list." in page


def test_a_wrapped_future():
    """asyncio.md: it can be awaited, and its cancellation is the operation's."""

    async def main():
        with Purgatory() as purgatory:
            reply = asyncio.wrap_future(purgatory.defer("reply"))
            purgatory.complete("reply", "hello")
            assert await reply == "hello"
            operation = purgatory.defer("lost")
            asyncio.wrap_future(operation).cancel()
            await asyncio.to_thread(eventually, operation.cancelled)

    asyncio.run(main())
    assert "`await asyncio.wrap_future(purgatory.defer(...))`" in text_of("docs/asyncio.md")


def test_loops_of_requests():
    """library.md: an `AsyncPurgatory` serves the requests of a single loop, adopters those of all.

    Flask, and Django under WSGI, call `asgiref.sync.async_to_sync`: a new loop for each request.
    """
    alone = AsyncPurgatory()

    async def view(waits):
        reply = waits.defer("reply")
        waits.complete("reply", "hello")
        return await reply

    async def adopting_view():
        async with AsyncPurgatory(purgatory=purgatory) as waits:
            return await view(waits)

    assert asyncio.run(view(alone)) == "hello"
    with pytest.raises(WrongEventLoop):
        asyncio.run(view(alone))
    with Purgatory() as purgatory:
        assert [asyncio.run(adopting_view()) for _ in range(2)] == ["hello"] * 2
    said = "make an `AsyncPurgatory` there that [adopts the purgatory]"
    assert said in text_of("docs/library.md")


def test_the_query_of_the_nightly_runs():
    """howto/nightly-report.md: the counter counts the ends of jobs by kind and state."""
    timings = JobTimings()
    timings.end_job("report", DONE)
    counted = [
        f"{sample.name}{{" + ",".join(f'{name}="{it}"' for name, it in sample.labels.items()) + "}"
        for family in job_timing_metrics(timings)
        for sample in family.samples
        if sample.name.startswith("purgatory_jobs") and sample.value
    ]
    assert len(counted) == 1
    assert f"`{counted[0]}` did not grow" in text_of("docs/howto/nightly-report.md")


def test_a_misspelt_name_in_the_environment():
    """service.md: other programs may have variables of such names."""
    config = Config.load(environment={"PURGATORY_MAX_PENDNG": "3", "PURGATORY_MAX_HELD": "4"})
    assert (config.max_held, config.max_pending) == (4, Config().max_pending)
    assert list(misspelt({"PURGATORY_MAX_PENDNG": "3", "PURGATORY_PORT": "4"})) == [
        "PURGATORY_MAX_PENDNG"
    ]
    assert "a name close to one is a warning, others are ignored" in text_of("docs/service.md")


def test_the_figures_of_a_timer_alone():
    """library.md: only a purgatory has metrics."""
    registry = CollectorRegistry()
    with Timer("alone") as timer, Purgatory("orders", registry=registry):
        timer.schedule(60, print)
        assert timer.stats().pending == 1
        names = {
            sample.labels.get("name") for each in registry.collect() for sample in each.samples
        }
        assert "orders" in names
        assert "alone" not in names
    assert "A `Timer` without a purgatory has no metrics." in text_of("docs/library.md")


def test_a_job_that_ends_a_repeat():
    """howto/nightly-report.md: it deletes the repeat on the last day."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop")
        worker.on("last day")(lambda job: [each.delete() for each in client.repeats()])
        client.repeat("nightly", cron="@daily", kind="report")
        with worker:
            assert client.schedule(0, kind="last day").result(HANG) == [True]
        assert list(client.repeats()) == []
    assert "a job declares or deletes the repeat on that day" in text_of(
        "docs/howto/nightly-report.md"
    )


def test_the_rules_of_a_zone_are_read_once():
    """howto/nightly-report.md: the standard library keeps them."""
    assert zone("Europe/Berlin") is zone("Europe/Berlin")
    assert "the server reads them once" in text_of("docs/howto/nightly-report.md")


def test_the_end_of_a_client_sends_what_is_unsent():
    """service.md: `close` waits for answers."""
    with ServiceDaemon(IN_MEMORY) as service:
        with Client(service.server.address, name="shop") as client:
            for _ in range(100):
                client.defer("paid:17")
        with Client(service.server.address, name="shop") as client:
            assert client.complete("paid:17") == 100
    assert CLOSE_TIMEOUT_S == 5
    assert "for five seconds at most (`close(timeout=60)`)" in text_of("docs/service.md")


def test_an_application_that_starts_again():
    """howto/web-timeouts.md: a purgatory of the module belongs to the first loop."""
    of_module = AsyncPurgatory()

    async def start(purgatory):
        async with purgatory:
            return purgatory.complete("paid:17", hold=60)

    assert asyncio.run(start(of_module)) == 0
    with pytest.raises(WrongEventLoop):
        asyncio.run(start(of_module))
    assert [asyncio.run(start(AsyncPurgatory())) for _ in range(2)] == [0, 0]
    assert "another loop's `WrongEventLoop`" in text_of("docs/howto/web-timeouts.md")


def test_the_end_of_a_held_event():
    """service.md: a completion of the key without `hold`."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        client.complete("slot", "free", hold=60)
        client.complete("slot")
        assert client.stats()["held"] == 0
        assert isinstance(client.defer("slot", timeout=0.01).exception(HANG), OperationExpired)
    assert "a `complete` without `hold` ends one." in text_of("docs/service.md")


def test_pools_of_processes():
    """library.md: a timer refuses them, and a callback may submit to one."""
    with ProcessPoolExecutor(1) as pool, pytest.raises(TypeError, match="in this process"):
        Timer(executor=pool)
    assert "A `ProcessPoolExecutor` is refused" in text_of("docs/library.md")


def test_a_line_of_a_json_log():
    """service.md, *Settings*: its fields."""
    try:
        raise ValueError("no room")
    except ValueError:
        record = logging.makeLogRecord({"exc_info": sys.exc_info(), "client": "shop"})
    line = json.loads(JsonFormatter().format(record))
    sentence = text_of("docs/service.md").partition("an object in a line")[2].partition(".")[0]
    assert re.findall("`([a-z]+)`", sentence) == list(line)


def test_a_key_that_comes_twice():
    """tutorial.md, *Several keys*: its first value counts."""
    with ManualPurgatory() as purgatory:
        both = purgatory.defer("a", "b", timeout=1, need=2)
        for key, value in (("a", 1), ("a", 2), ("b", 3)):
            purgatory.complete(key, value)
        assert both.result() == {"a": 1, "b": 3}
    assert "of a key the first value counts" in text_of("docs/tutorial.md")


def test_names_in_a_registry():
    """library.md: two purgatories of one name are refused."""
    registry = CollectorRegistry()
    with Purgatory("orders", registry=registry), pytest.raises(ValueError, match="orders"):
        Purgatory("orders", registry=registry)
    assert "unique in a registry (else a `ValueError`)" in text_of("docs/library.md")


@pytest.mark.parametrize("method", ["bind", "connect"])
def test_other_transports(method):
    """mq.md: both calls refuse these."""
    with mq.Context() as context, context.socket(mq.PUSH) as socket:
        with pytest.raises(mq.ZMQError) as refused:
            getattr(socket, method)("tcp://127.0.0.1:5555")
        assert refused.value.errno == mq.EPROTONOSUPPORT
    assert "`bind` and `connect` raise `EPROTONOSUPPORT`" in text_of("docs/mq.md")


def test_how_long_a_take_waits():
    """gateway.md: by default, and at most."""
    assert f"for `wait` ({TakeRequest(kinds=['mail']).wait:.0f} s), at most 30 s" in text_of(
        "docs/gateway.md"
    )
