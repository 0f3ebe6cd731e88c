"""What the pages answer to questions of users and operators is what the code does."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from purgatory import Client, OperationExpired, Purgatory, PurgatoryClosed, Worker
from purgatory.service import Config, JobCancelled, ServiceDaemon
from purgatory.service.http.listening import server_config
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


def test_the_names_of_threads():
    """library.md: each has the name of its timer or purgatory."""
    ran = threading.Event()
    with Timer("leases") as timer, Purgatory("orders"):
        timer.schedule(0, ran.set)
        assert ran.wait(HANG)
        threads = {thread.name: thread.daemon for thread in threading.enumerate()}
        expected = ("leases-reaper", "leases-executor", "orders-reaper")
        assert [threads[name] for name in expected] == [True, True, True]
    assert "`NAME-reaper`, `NAME-executor`; all are daemons" in text_of("docs/library.md")


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
    assert "| without Prometheus | `purgatory stats --json`" in text_of("docs/service.md")


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
    """gateway.md: a proxy does."""
    assert not server_config(None).access_log
    assert "no request is logged: let a proxy do both" in text_of("docs/gateway.md")
