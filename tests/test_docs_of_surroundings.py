"""What the pages say of notebooks, models, patterns, approvals and files is what the code does."""

import ast
import asyncio
import inspect
import json
import logging
import os
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime, timedelta

import pyarrow.parquet as pq
import pytest
import uvicorn

import mq.asyncio
from purgatory import Client, OperationExpired, Purgatory, Worker
from purgatory.aio import AsyncPurgatory
from purgatory.cli.process import JsonFormatter, TextFormatter
from purgatory.service import Config, RequestTimeout, ServiceDaemon
from purgatory.testing import ManualPurgatory
from tests.test_docs import ROOT, environment, text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import Timer, TimerFull

IN_MEMORY = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
REQUEST = ContextVar("request", default="none")


def test_the_cells_of_a_notebook():
    """library.md: cells share an event loop, and `await` stands alone."""
    cells = (
        "from purgatory.aio import AsyncPurgatory; p = AsyncPurgatory(); w = p.defer('k')",
        "p.complete('k', 5); reply = await w; await p.close()",
        "from purgatory import Purgatory; p = Purgatory(); p.start(); f = p.defer('k', timeout=0)",
        "error = f.exception(60); p.close()",
    )
    names = {}

    async def run_cells():
        for cell in cells:
            code = compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            # As ipykernel does: a cell with `await` gives a coroutine.
            if inspect.isawaitable(waiting := eval(code, names)):
                await waiting

    asyncio.run(run_cells())
    assert (names["reply"], type(names["error"]).__name__) == (5, "OperationExpired")
    assert "without `asyncio.run`" in text_of("docs/library.md")


def test_the_context_of_callbacks():
    """library.md: of the thread that completes; after an expiry of the worker, which keeps it."""
    seen, expired = [], threading.Event()

    def complete(purgatory):
        REQUEST.set("completer")
        purgatory.complete("paid")

    def expire(name):
        seen.append(REQUEST.get())
        REQUEST.set(name)
        expired.set()

    with Purgatory(executor_workers=1) as purgatory:
        REQUEST.set("submitter")
        paid = purgatory.defer("paid", timeout=HANG)
        paid.add_done_callback(lambda _: seen.append(REQUEST.get()))
        thread = threading.Thread(target=complete, args=[purgatory])
        thread.start()
        thread.join()
        for name in ("first", "second"):
            expired.clear()
            lost = purgatory.defer("lost", timeout=0.01)
            lost.add_done_callback(lambda _, name=name: expire(name))
            assert expired.wait(HANG)
    REQUEST.set("none")
    assert seen == ["completer", "none", "first"]
    said = "after an expiry in a worker's, empty but for what earlier callbacks set,"
    assert said in text_of("docs/library.md")


def test_the_context_of_the_caller():
    """library.md: `defer`, `schedule` and `every` take a context for what they call."""
    seen = []
    token = REQUEST.set("submitter")
    with ManualPurgatory() as purgatory:
        given, note = copy_context(), lambda *_: seen.append(REQUEST.get())
        purgatory.defer("paid", context=given).add_done_callback(note)
        purgatory.timer.schedule(1, note, context=given)
        purgatory.timer.every(2, note, context=given)
        REQUEST.reset(token)
        purgatory.complete("paid")
        purgatory.advance(2)
    assert seen == ["submitter"] * 3
    assert "take `context=contextvars.copy_context()`" in text_of("docs/library.md")


def test_the_context_of_callbacks_on_a_loop():
    """library.md: that of `add_done_callback`, as asyncio's."""
    seen = []

    async def complete(purgatory):
        REQUEST.set("completer")
        purgatory.complete("paid")

    async def main():
        REQUEST.set("waiter")
        async with AsyncPurgatory() as purgatory:
            paid = purgatory.defer("paid")
            paid.add_done_callback(lambda _: seen.append(REQUEST.get()))
            await asyncio.create_task(complete(purgatory))
            await paid

    asyncio.run(main())
    assert seen == ["waiter"]
    page = text_of("docs/library.md")
    assert "On an event loop a done callback runs in the context of `add_done_callback`" in page


def test_an_event_just_before_a_cancellation():
    """asyncio.md: the value of a limited event is lost; an unlimited one is still held."""

    async def main():
        async with AsyncPurgatory() as p:
            for key, limit in (("limited", 1), ("unlimited", None)):
                waiting = asyncio.create_task(p.wait(key))
                await asyncio.sleep(0)
                assert p.complete(key, "value", hold=60, limit=limit) == 1
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            assert await p.wait("unlimited", timeout=0) == "value"
            with pytest.raises(OperationExpired):
                await p.wait("limited", timeout=0)

    asyncio.run(main())
    assert "the value is lost, with `limit` and `hold`, too" in text_of("docs/asyncio.md")


def test_a_kind_is_no_pattern():
    """service.md: it is matched as a whole; a function may serve many kinds."""
    kinds = []
    with ServiceDaemon(IN_MEMORY) as service:
        worker = Worker(service.server.address, name="shop")

        def handle(job):
            kinds.append(job.kind)

        for kind in ("mail.*", "mail.receipt"):
            worker.on(kind)(handle)
        with worker, Client(service.server.address, name="shop") as client:
            welcome = client.schedule(0, kind="mail.welcome")
            client.schedule(0, kind="mail.receipt").result(HANG)
            assert welcome.status().why == "no worker of this client for this kind"
    assert kinds == ["mail.receipt"]
    assert "none: a kind is matched as a whole" in text_of("docs/service.md")


def test_what_a_job_cannot_choose():
    """service.md: attempts and limits of time are those of the kind."""
    arguments = inspect.signature(Client.schedule).parameters
    assert not {"max_attempts", "retry_delay", "timeout"} & set(arguments)
    page = text_of("docs/service.md")
    assert "none: attempts, delays and `timeout` are those of the kind" in page


def test_a_model_as_payload():
    """service.md: an object that is no dataclass is refused."""

    class Order:
        def model_dump(self, mode):
            return {"order": 17}

    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        with pytest.raises(TypeError, match="Order is unsupported"):
            client.schedule(0, kind="mail", payload=Order())
        client.schedule(60, kind="mail", payload=Order().model_dump(mode="json"))
    page = text_of("docs/service.md")
    assert '`TypeError`: send `model.model_dump(mode="json")`' in page


def test_a_person_approves():
    """howto/job-chains.md: a program goes on, also one that starts after the approval."""
    ended, told = [], threading.Event()

    def on_outcome(outcome):
        ended.append((outcome.op_id, outcome.outcome, outcome.payload))
        told.set()

    with ServiceDaemon(IN_MEMORY) as service:
        address = service.server.address
        worker = Worker(address, name="shop")
        with Client(address, name="shop") as client:

            @worker.on("draft")
            def draft(job):
                approval = f"{job.id}:approval"
                key = f"approve:{job.id}"
                client.submit(key, timeout=3 * 86400, op_id=approval, payload=job.payload)

            with worker:
                client.schedule(0, kind="draft", job_id="letter", payload=17).result(HANG)
                assert client.complete("approve:letter") == 1
                assert [each.op_id for each in client.unread()] == ["letter:approval"]
                with Client(address, name="shop", on_outcome=on_outcome):
                    assert told.wait(HANG)
    assert ended == [("letter:approval", "completed", 17)]
    page = text_of("docs/howto/job-chains.md")
    assert (
        '`client.submit(f"approve:{job.id}", timeout=3 * 86400, op_id=f"{job.id}:approval"' in page
    )


def test_a_moment_that_is_past():
    """howto/delayed-jobs.md: the job is due at once."""
    with ServiceDaemon(IN_MEMORY) as service, Client(service.server.address) as client:
        job = client.schedule(at=datetime.now(UTC) - timedelta(days=3), kind="mail")
        assert eventually(lambda: job.status().state == "ready") is None
    assert "a past one is due at once" in text_of("docs/howto/delayed-jobs.md")


def test_payloads_are_not_compressed(tmp_path):
    """service.md: the database has the payload's bytes."""
    text = "compressible " * 1000
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.schedule(3600, kind="mail", payload=text)
        log = (tmp_path / "data" / "purgatory.db-wal").read_bytes()
    assert log.count(b"compressible ") >= 900
    assert "Nothing is compressed: send compressed bytes" in text_of("docs/service.md")


def test_the_times_of_the_log(monkeypatch):
    """service.md: local in a text, UTC in JSON."""
    record = logging.makeLogRecord({"msg": "x", "levelname": "INFO", "name": "n", "created": 0.0})
    monkeypatch.setenv("TZ", "UTC-5")
    time.tzset()
    try:
        text = TextFormatter().format(record)
        line = JsonFormatter().format(record)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert text.startswith("1970-01-01 05:00:00")
    assert json.loads(line)["time"] == "1970-01-01T00:00:00.000Z"
    assert "Its times are local; `--log-format json`" in text_of("docs/service.md")


def test_the_files_of_a_data_directory(tmp_path):
    """service.md: it lists all files."""
    data = tmp_path / "data"
    config = Config(data_dir=data, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.schedule(3600, kind="mail")
        names = {each.name for each in data.iterdir()}
    assert names <= {"journal", "lock", "purgatory.db", "purgatory.db-wal", "purgatory.db-shm"}
    row = "| `purgatory.db` with `-wal` and `-shm`, `lock`, `keys`, `journal` |"
    assert row in text_of("docs/service.md")


def test_the_date_of_an_expiry_after_an_outage(tmp_path):
    """service.md: it is that of the deadline, so files of earlier dates may still come."""
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        client.defer("paid:17", timeout=0.2, op_id="order-17")
        client.flush()
    eventually(lambda: time.time() > deadline_of(tmp_path) / 1000)
    with ServiceDaemon(config):
        pass
    [outcomes] = (tmp_path / "journal/outcomes").rglob("*.parquet")
    [row] = pq.read_table(outcomes).to_pylist()
    assert row["at_ms"] == row["deadline_ms"]
    page = text_of("docs/service.md")
    assert "after an outage an expiry has the date of its deadline" in page


def deadline_of(data):
    """Return the deadline of the only operation of a stopped server's journal."""
    [operations] = (data / "journal/operations").rglob("*.parquet")
    [row] = pq.read_table(operations).to_pylist()
    return row["submitted_ms"] + row["timeout_ms"]


def test_the_journal_in_pandas(tmp_path):
    """service.md: a table's directory is a data set with a partition for each date."""
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        assert client.cancel_job(client.schedule(60, kind="mail").id)
    table = pq.read_table(tmp_path / "journal" / "jobs").to_pylist()
    assert [(row["kind"], row["state"]) for row in table] == [("mail", "cancelled")]
    page = text_of("docs/service.md")
    assert '`pandas.read_parquet("journal/jobs")`' in page
    assert f"up to {86_400 / config.journal_seconds:,.0f} files of a table in a day" in page


def test_what_an_import_starts():
    """library.md: no thread, and no handler of signals; nor does a purgatory."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, env=environment()
    )
    assert (done.stdout, done.stderr) == ("1 True\n", "")
    statement = "An import starts no thread, and timers, purgatories and clients install no"
    assert statement in text_of("docs/library.md")


IMPORTS = """
import signal, threading
before = [signal.getsignal(number) for number in signal.valid_signals()]
import mq, purgatory, purgatory.aio, purgatory.service, timingwheel
threads = threading.active_count()
with purgatory.Purgatory() as p:
    p.defer("reply")
print(threads, [signal.getsignal(number) for number in signal.valid_signals()] == before)
"""


def test_metrics_of_several_processes(tmp_path):
    """library.md: prometheus_client joins its own kinds of metrics alone."""
    done = subprocess.run(
        [sys.executable, "-c", JOINED],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "`PROMETHEUS_MULTIPROC_DIR` joins the metrics" in text_of("docs/library.md")


JOINED = """
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from purgatory import Purgatory
with Purgatory(registry=REGISTRY):
    joined = CollectorRegistry()
    MultiProcessCollector(joined)
    assert b"purgatory" in generate_latest(REGISTRY)
    assert b"purgatory" not in generate_latest(joined)
"""


def test_a_client_without_a_server():
    """service.md: it is made at once; a call that waits raises after the timeout."""
    with Client("tcp://127.0.0.1:1", name="shop", timeout=0.05) as client:
        with pytest.raises(RequestTimeout):
            client.complete("paid:17")
        client.close(0)
    assert "`Client(...)` returns at once" in text_of("docs/service.md")


def test_the_versions_of_spark():
    """spark.md: those that the extra asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "pyspark>=4.3,<5" in project["optional-dependencies"]["spark"]
    assert "PySpark 4.3 or a later 4" in text_of("docs/spark.md")


def test_mq_on_an_event_loop():
    """mq.md: the classes of `zmq.asyncio`."""
    assert {"Context", "Poller", "Socket"} <= set(vars(mq.asyncio))
    assert "`mq.asyncio` replaces `zmq.asyncio`" in text_of("docs/mq.md")


def test_the_bound_of_an_adopted_purgatory():
    """library.md: that of its timer."""

    async def main(purgatory):
        async with AsyncPurgatory(purgatory=purgatory) as p:
            p.defer("first")
            with pytest.raises(TimerFull):
                p.defer("second")

    with Timer(max_pending=1) as timer, Purgatory(timer=timer) as purgatory:
        asyncio.run(main(purgatory))
    assert "also in an `AsyncPurgatory` that adopts it" in text_of("docs/library.md")


def test_tls_of_the_gateway():
    """gateway.md: its server leaves the defaults, which ask for no certificate of a client."""
    assert uvicorn.Config("app").ssl_cert_reqs == ssl.CERT_NONE
    context = ssl.SSLContext(uvicorn.Config("app").ssl_version)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert "version 1.2 or newer, without certificates of clients" in text_of("docs/gateway.md")


def test_a_module_that_configures_logging(tmp_path):
    """service.md: `dictConfig` replaces what the command has set up."""
    (tmp_path / "app.py").write_text(
        "import logging.config\n"
        "logging.config.dictConfig({'version': 1, 'root': {'handlers': []}})\n"
        "from purgatory import Worker\n"
        "worker = Worker('tcp://127.0.0.1:1', name='shop')\n"
    )
    command = [sys.executable, "-c", WORKER_THAT_IS_LOADED]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=HANG
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    page = text_of("docs/service.md")
    assert "`logging.config.dictConfig` in the module replaces all of this" in page


WORKER_THAT_IS_LOADED = """
import logging
from purgatory.cli.process import configure_logging
from purgatory.cli.worker import _load
configure_logging("text", verbose=False)
_load("app:worker")
print(logging.getLogger().handlers)
"""


def test_what_a_database_needs():
    """high-availability.md: no extension is created."""
    store = ROOT / "purgatory/service/store/postgres"
    assert [
        each for each in store.rglob("*.py") if "create extension" in each.read_text().lower()
    ] == []
    assert "no extension, but `CREATE` on the database" in text_of("docs/high-availability.md")


def test_which_standby_counts():
    """high-availability.md: one that the setting of PostgreSQL names."""
    groups = (ROOT / "purgatory/service/store/postgres/groups.py").read_text()
    assert "current_setting('synchronous_standby_names') <> ''" in groups
    assert "has empty `synchronous_standby_names`" in text_of("docs/high-availability.md")
