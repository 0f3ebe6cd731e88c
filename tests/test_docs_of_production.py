"""What the pages say of the library and of handlers in production is what the code does."""

import asyncio
import copy
import gc
import importlib
import logging
import pickle
import re
import threading
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

import purgatory
import timingwheel
from purgatory import Client, KeyedOperation, Purgatory, Worker, next_times
from purgatory.cli import main
from purgatory.journal import writer
from purgatory.replay import Replay
from purgatory.service import Config, JobFailed, ServiceDaemon
from purgatory.service.backup import back_up, restore
from purgatory.service.errors import OperationIdTaken
from purgatory.service.http import listening
from purgatory.service.server.journal.parquet_sink import ParquetSink
from purgatory.testing import ManualPurgatory
from purgatory.trace import read_events, read_operations
from purgatory.trace.tables import EVENTS, EXTENSIONS, JOBS, OPERATIONS, OUTCOMES
from tests.test_docs import text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import InlineExecutor, ManualClock, Timer, TimerFull

IN_MEMORY = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")


def test_what_a_callback_may_do_with_its_own_task():
    """library.md: `add` re-arms it, `cancel` returns False."""
    clock, answers = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())

    def again():
        answers.append(task.cancel())
        timer.add(task)

    task = timer.schedule(1, again)
    for _ in range(2):
        clock.advance(1)
        timer.advance_clock()
    assert task.cancel()
    recurring = timer.every(1, lambda: answers.append(recurring.cancel()))
    clock.advance(1)
    timer.advance_clock()
    assert answers == [False, False, True]
    timer.close()
    page = text_of("docs/library.md")
    assert "`cancel` of its own task returns False, unless it is of `every`" in page


def test_a_bound_of_waiting_operations():
    """library.md: that of a shared timer."""
    timer = Timer(max_pending=1, clock=ManualClock(), executor=InlineExecutor())
    with Purgatory(timer=timer) as purgatory:
        purgatory.defer("a")
        with pytest.raises(TimerFull):
            purgatory.defer("b")
        assert purgatory.complete("a") == 1
        purgatory.defer("b")
    timer.close()


@pytest.mark.parametrize("take", [copy.copy, pickle.dumps])
def test_what_cannot_be_copied(take):
    """library.md: timers, purgatories, operations and futures."""
    with ManualPurgatory() as purgatory:
        operation = KeyedOperation(1)
        purgatory.try_complete_else_watch(operation, ["k"])
        for thing in (purgatory, purgatory.timer, operation, purgatory.defer("k")):
            with pytest.raises(TypeError):
                take(thing)


def fail(*_):
    """Raise an error, as a callback."""
    raise ValueError("of a callback")


class Failing(KeyedOperation):
    """Raises in a method."""

    def on_complete(self):
        fail()


def test_the_level_of_exceptions_of_callbacks(caplog):
    """library.md: ERROR, with the traceback, below the names of the packages."""
    with ManualPurgatory() as purgatory:
        purgatory.timer.schedule(1, fail)
        purgatory.advance(1)
        purgatory.try_complete_else_watch(Failing(1), ["k"])
        purgatory.defer("k").add_done_callback(fail)
        assert purgatory.complete("k") == 2
    assert len(caplog.records) == 3
    assert {record.levelno for record in caplog.records} == {logging.ERROR}
    assert all(record.exc_info for record in caplog.records)
    packages = {record.name.partition(".")[0] for record in caplog.records}
    assert packages == {"timingwheel", "purgatory"}


@pytest.mark.parametrize("package", ["timingwheel", "purgatory", "mq"])
def test_the_base_of_a_packages_errors(package):
    """library.md: of each error that the package exports, but for bad arguments."""
    module = importlib.import_module(package)
    [name] = re.findall(rf"\| `{package}`[^|]* \| `(\w+)`", text_of("docs/library.md"))
    types = [each for each in vars(module).values() if isinstance(each, type)]
    kinds = [each for each in types if issubclass(each, Exception) and package in each.__module__]
    assert len(kinds) > 3
    missing = {kind.__name__ for kind in kinds if not issubclass(kind, getattr(module, name))}
    # An IndexError, of a pipe's own thread; and one of pyzmq's, which nothing raises.
    assert missing <= {"Empty", "ZMQVersionError"}


def test_the_log_of_a_failed_attempt(caplog):
    """service.md: a warning with the traceback; the coroutines of a worker share a loop."""
    with (
        ServiceDaemon(IN_MEMORY) as service,
        Client(service.server.address, name="shop") as client,
    ):
        worker = Worker(service.server.address, name="shop", max_attempts=1)
        worker.on("fail")(fail)
        for kind in ("a", "b"):

            @worker.on(kind)
            async def where(job):
                return threading.current_thread().name

        with worker:
            with pytest.raises(JobFailed):
                client.schedule(0, kind="fail").result(HANG)
            names = {client.schedule(0, kind=kind).result(HANG) for kind in ("a", "b")}
    assert names == {"shop-worker-loop"}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info
    assert f"level WARNING, logger `{record.name}`" in text_of("docs/service.md")


def test_a_worker_may_start_before_its_server(tmp_path):
    """service.md: it waits for a server."""
    address = f"ipc://{tmp_path}/server"
    worker = Worker(address, name="shop")
    worker.on("sum")(lambda job: sum(job.payload))
    with (
        worker,
        ServiceDaemon(Config(memory=True, bind=address, http_bind="")),
        Client(address, name="shop") as client,
    ):
        assert client.schedule(0, kind="sum", payload=[1, 2]).result(HANG) == 3
    assert "It may start before the server" in text_of("docs/service.md")


def test_when_an_attempt_began_after_a_restart(tmp_path):
    """protocol.md: the status has forgotten it, the history has not."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    for is_restarted in (False, True):
        with (
            ServiceDaemon(config) as service,
            Client(service.server.address, name="shop") as client,
        ):
            if not is_restarted:
                client.schedule(0, kind="mail", job_id="again")
                worker = Worker(service.server.address, name="shop", retry_delay=600)
                worker.on("mail")(int)  # fails
                with worker:
                    eventually(lambda: client.job("again").state == "retrying")
            found = client.job("again")
            assert (found.attempts, found.began is None) == (1, is_restarted)
            assert found.history[-1].began
    text = "`began_ms` is that of the latest since the server's start"
    assert text in text_of("docs/protocol.md")


def test_what_is_not_in_the_journal():
    """service.md: payloads, results and values; errors, tags and clients of operations."""
    of_operations = {
        name for table in (OPERATIONS, EVENTS, EXTENSIONS, OUTCOMES) for name in table.names
    }
    assert of_operations.isdisjoint({"payload", "result", "value", "client", "tags", "error"})
    assert set(JOBS.names).isdisjoint({"payload", "result", "value", "keys"})
    assert "keys" in of_operations
    text = "keys of operations; clients, tags, errors of jobs | the journal |"
    assert text in text_of("docs/service.md")


def test_payloads_and_results_are_not_in_memory(tmp_path):
    """service.md: they are in the database alone, which keeps the keys after the end, too."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    size, count = 60_000, 10
    with (
        ServiceDaemon(config) as service,
        Client(service.server.address, name="shop") as client,
    ):
        tracemalloc.start()
        try:
            for n in range(count):
                client.submit(f"key-{n}", op_id=f"key-{n}", payload="p" * size)
                client.schedule(3600, kind="mail", payload="p" * size)
                client.complete(f"key-{n}", "r" * size)
                assert client.query(f"key-{n}").keys == [f"key-{n}"]
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < size * count / 2
        finally:
            tracemalloc.stop()
        assert client.stats()["unacknowledged"] == count
    page = text_of("docs/service.md")
    assert "| the database; keys and tags also memory | `unique_for` after the end" in page
    assert "| the database; without payload and result also memory | `retention`" in page


def test_which_jobs_a_restored_backup_runs_again(tmp_path):
    """service.md: those that have ended since; later ones are unknown."""
    original = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    with (
        ServiceDaemon(original) as service,
        Client(service.server.address, name="shop") as client,
    ):
        client.schedule(3600, kind="mail", job_id="before")
        back_up(original, tmp_path / "backup")
        assert client.cancel_job("before")
        client.schedule(3600, kind="mail", job_id="later")
    restore(tmp_path / "backup", tmp_path / "restored")
    restored = replace(original, data_dir=tmp_path / "restored")
    with (
        ServiceDaemon(restored) as service,
        Client(service.server.address, name="shop") as client,
    ):
        assert client.job("before").state == "scheduled"
        assert client.job("later") is None
    statement = "jobs that have ended since run again, and later ids are unknown"
    assert statement in text_of("docs/service.md")


def test_how_long_requests_last_at_the_end_of_a_gateway():
    """service.md: a second."""
    assert listening._GRACE == 1
    assert "it cuts off what lasts longer than a second" in text_of("docs/service.md")


def test_what_waiters_of_a_key_get():
    """tutorial.md: the same value, in order of submission; an operation is submitted once."""
    order, value = [], []
    with ManualPurgatory() as purgatory:
        for number in range(3):
            purgatory.defer("k").add_done_callback(
                lambda future, number=number: order.append((number, future.result() is value))
            )
        gc.collect()
        assert purgatory.complete("k", value) == 3
        assert order == [(0, True), (1, True), (2, True)]
        error, futures = KeyError("k"), [purgatory.defer("k"), purgatory.defer("k")]
        assert purgatory.fail("k", error) == 2
        assert [future.exception() for future in futures] == [error, error]
        operation = KeyedOperation(1)
        purgatory.try_complete_else_watch(operation, ["k"])
        purgatory.complete("k")
        with pytest.raises(ValueError, match="was submitted already"):
            purgatory.try_complete_else_watch(operation, ["k"])


def test_a_recurring_task_that_ends_itself():
    """library.md: `cancel` within a run."""
    runs = []
    with ManualPurgatory() as purgatory:

        def run():
            runs.append(1)
            if len(runs) == 2:
                recurring.cancel()

        recurring = purgatory.timer.every(1, run)
        purgatory.advance(9)
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("0 0 L * *", "2027-01-31"),
        ("0 0 * * MON#2", "2027-01-11"),
        ("0 0 * * 1", "2027-01-04"),
        ("*/15 9-17 1,15 * *", "2027-01-15"),
        ("@daily", "2027-01-02"),
    ],
)
def test_what_a_pattern_may_have(pattern, expected):
    """howto/nightly-report.md: five fields, and some signs."""
    after = datetime(2027, 1, 1, 23, tzinfo=UTC)
    (first,) = next_times(pattern, "UTC", 1, after)
    assert f"{first:%Y-%m-%d}" == expected
    with pytest.raises(ValueError, match="expected minute"):
        next_times(f"0 {pattern} 0 0", "UTC")


def test_what_a_wait_without_an_end_does():
    """service.md: TimeoutError, and the job goes on; payloads are in lists."""
    with (
        ServiceDaemon(IN_MEMORY) as service,
        Client(service.server.address, name="shop") as client,
        Client(service.server.address, name="other") as other,
    ):
        job = client.schedule(3600, kind="mail", job_id="m", payload=[1])
        with pytest.raises(TimeoutError):
            job.result(timeout=0)
        assert job.status().state == "scheduled"
        (listed,) = client.list(state="pending")
        assert listed.payload == [1]
        with pytest.raises(OperationIdTaken):
            other.schedule(3600, kind="mail", job_id="m")


def test_the_bases_of_errors():
    """library.md: one for each package."""
    bases = {timingwheel: timingwheel.TimerError, purgatory: purgatory.PurgatoryError}
    for package, base in bases.items():
        found = [getattr(package, name) for name in package.__all__]
        errors = [each for each in found if isinstance(each, type) and issubclass(each, Exception)]
        assert errors
        assert all(issubclass(error, base) for error in errors)
        assert f"`{base.__name__}`" in text_of("docs/library.md")


def test_a_job_of_one_attempt_after_a_restart(tmp_path, monkeypatch):
    """service.md: an attempt that has not ended is forgotten, so the job runs again."""
    monkeypatch.setattr("purgatory.service.worker.worker._FLUSH_S", 0.1)
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    begun, attempts = threading.Event(), []
    with (
        ServiceDaemon(config) as service,
        Client(service.server.address, name="shop") as client,
    ):
        client.schedule(0, kind="mail", job_id="once")
        worker = Worker(service.server.address, name="shop", max_attempts=1)

        @worker.on("mail")
        async def hang(job):
            begun.set()
            await asyncio.Event().wait()

        worker.start()
        assert begun.wait(HANG)
        client.flush()
    with (
        ServiceDaemon(config) as service,
        Client(service.server.address, name="shop") as client,
    ):
        other = Worker(service.server.address, name="shop", max_attempts=1)
        other.on("mail")(lambda job: attempts.append(job.attempt))
        with other:
            client.result("once", HANG)
        assert client.job("once").attempts == 1
    worker.stop(timeout=0)
    assert attempts == [1]
    text = "`attempts` counts attempts that run, have failed or have succeeded"
    assert text in text_of("docs/protocol.md")
    assert "With `max_attempts=1` a job still runs again" in text_of("docs/service.md")


def test_a_limited_event_in_a_replay(tmp_path):
    """service.md: without this event a later event ends its operation, or the timeout does."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        for key in ("lock", "room"):
            waits = [client.defer(key, timeout=60, op_id=f"{key}-{n}") for n in (1, 2)]
            client.flush()
            assert client.complete(key, limit=1) == 1
            waits[0].result(HANG)
        assert client.complete("lock", limit=1) == 1
    found = {}
    journal = config.journal_dir
    with Replay(on_outcome=lambda outcome: found.update({outcome.op_id: outcome})) as replay:
        replay.run(read_operations(journal / "operations"), read_events(journal / "events"))
    assert {name: one.outcome for name, one in found.items()} == {
        "lock-1": "completed",
        "lock-2": "completed",
        "room-1": "expired",
        "room-2": "expired",
    }
    assert found["lock-1"].at_ms == found["lock-2"].at_ms
    text = "operations that it reached end by a later event, or expire"
    assert text in text_of("docs/service.md")


def test_a_journal_switched_on_later(tmp_path):
    """service.md: jobs, events and extensions from then on; operations of the database, too."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    for when, journal in (("before", False), ("later", True)):
        with (
            ServiceDaemon(replace(config, journal=journal)) as service,
            Client(service.server.address, name="shop") as client,
        ):
            client.schedule(3600, kind="mail", job_id=f"job {when}")
            assert client.cancel_job(f"job {when}")
            client.defer(when, timeout=3600, op_id=when)
            client.flush()
            assert client.complete(when) == 1
    names = {
        table: set(pq.read_table(config.journal_dir / table)[column].to_pylist())
        for table, column in (("operations", "op_id"), ("events", "key"), ("jobs", "job_id"))
    }
    assert names["operations"] == {"before", "later"}
    assert (names["events"], names["jobs"]) == ({"later"}, {"job later"})
    text = "A journal switched on later has events, extensions and ends of jobs from then on."
    assert text in text_of("docs/service.md")


def test_the_files_of_a_busy_journal(tmp_path, monkeypatch):
    """service.md: many rows are written before the minute is over, each time to another file."""
    monkeypatch.setattr(writer, "BATCH", 4)
    monkeypatch.setattr(writer, "_WAKE_THRESHOLD", 2)
    written = threading.Semaphore(0)
    sink = ParquetSink(tmp_path, seconds=3600)
    sink.start("db", lambda _: written.release())
    for first in (1, 5):
        rows = [(number, f"o{number}", "", 1, 1, ("k",), 1) for number in range(first, first + 4)]
        sink.write(rows, [])
        assert written.acquire(timeout=HANG)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    sink.close()
    assert "1,440 files of a table in a day, of a busy server more" in text_of("docs/service.md")


def test_a_table_of_a_journal_in_one_file(tmp_path):
    """service.md: a command joins the files, but those of jobs."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    for key in ("first", "second"):
        with ServiceDaemon(config) as service, Client(service.server.address) as client:
            client.defer(key, timeout=3600)
            client.cancel_job(client.schedule(3600))
    tables = [config.journal_dir / name for name in ("operations", "jobs")]
    assert [len(list(table.rglob("*.parquet"))) for table in tables] == [2, 2]
    joined = tmp_path / "joined.parquet"
    codes = [main(["trace", "convert", str(table), str(joined)]) for table in tables]
    assert codes == [0, 2]
    assert pq.read_table(joined)["keys"].to_pylist() == [["first"], ["second"]]
    text = "`purgatory trace convert DIRECTORY FILE` copies a table, but not `jobs`, into one file"
    assert text in text_of("docs/service.md")
