"""What the pages answer to a newcomer's questions is what the code does."""

import ast
import dataclasses
import inspect
import json
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from purgatory import KeyedOperation, OperationExpired, Purgatory
from purgatory.cli import main
from purgatory.durable_files import DirectoryLock
from purgatory.errors import StoreError
from purgatory.service import Client, Config, RequestTimeout, ServiceDaemon, Worker
from purgatory.service.auth.access import RIGHTS, Access
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.errors import StoreFailed, TooLarge, refusal_of
from purgatory.service.nesting import MAX_LEVELS
from purgatory.service.platform import boot_ns
from purgatory.service.server.network import router_socket
from purgatory.testing import ManualPurgatory
from purgatory.trace.tables import EVENTS, EXTENSIONS, JOBS, OPERATIONS, OUTCOMES
from tests.test_docs import ROOT, text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import MAX_WORKERS


def test_a_caller_that_gives_up():
    """howto/request-reply.md: the operation waits on."""
    with ManualPurgatory() as purgatory:
        reply = purgatory.defer("reply", timeout=30)
        with pytest.raises(TimeoutError) as given_up:
            reply.result(timeout=0)
        assert not isinstance(given_up.value, OperationExpired)
        assert not reply.done()
        assert reply.cancel()
        assert purgatory.delayed == 0
    assert (
        "`reply.result(timeout=5)` raises a `TimeoutError` that is no `OperationExpired`. The "
        "operation waits on, until `reply.cancel()`."
    ) in text_of("docs/howto/request-reply.md")


class Answers(KeyedOperation):
    """Notes at its expiry which keys were completed."""

    def on_expiration(self):
        self.known = self.values


def test_who_has_answered_before_a_timeout():
    """tutorial.md: a `KeyedOperation` knows."""
    with ManualPurgatory() as purgatory:
        answers = Answers(1, need=2)
        purgatory.try_complete_else_watch(answers, ["a", "b", "c"])
        purgatory.complete("b", "yes")
        purgatory.advance(1)
        assert answers.known == {"b": "yes"}
    statement = "submit a `KeyedOperation` as in section 6: `self.values` in its `on_expiration`"
    assert statement in text_of("docs/tutorial.md")


def test_which_keys_are_one():
    """tutorial.md: those that are equal."""
    with Purgatory() as purgatory:
        waiting = purgatory.defer(1)
        assert purgatory.complete(True) == 1
        assert waiting.done()
    assert "as in a dict, `1` and `True` are equal" in text_of("docs/tutorial.md")


def test_the_metrics_to_watch():
    """README.md: a purgatory has them."""
    registry = CollectorRegistry()
    with Purgatory(registry=registry):
        known = {metric.name for metric in registry.collect()}
    page = text_of("README.md")
    watched = re.findall(r"`((?:purgatory|timingwheel)_[a-z_]+)`", page[page.index("## Metrics") :])
    assert len(watched) == 3
    assert set(watched) <= known


def test_a_slow_callback_holds_up_no_other():
    """library.md: the next runs beside it."""
    ran = threading.Event()
    waited = []
    with Timer() as timer:
        timer.schedule(0, lambda: waited.append(ran.wait(HANG)))
        timer.schedule(0, ran.set)
        eventually(lambda: waited)
    assert waited == [True]
    assert f"runs beside the slow one, up to {MAX_WORKERS} at once" in text_of("docs/library.md")


def test_who_shuts_a_pool_down():
    """library.md: not the timer."""
    with ThreadPoolExecutor(1) as pool:
        with Timer(executor=pool):
            pass
        assert pool.submit(int).result(HANG) == 0
    assert "shut the pool down after the timer" in text_of("docs/library.md")


def test_what_a_sleep_of_the_machine_delays():
    """library.md: what the monotonic clock counts."""
    clock, ran = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())
    timer.schedule_at(datetime.now(UTC) + timedelta(hours=1), ran.append, 1)
    clock.advance(3601)  # the wall clock stays
    timer.advance_clock()
    assert ran == [1]
    if sys.platform == "linux":
        assert "CLOCK_MONOTONIC" in time.get_clock_info("monotonic").implementation
        assert boot_ns.args == (time.CLOCK_BOOTTIME,)
    statement = "While a machine sleeps, a timer stands still, unlike a server."
    assert statement in text_of("docs/library.md")


def test_a_server_within_the_program(tmp_path):
    """howto/delayed-jobs.md: with a directory it keeps operations for the next start."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    for expected in (False, True):
        with ServiceDaemon(config) as service, Client(service.server.address, name="me") as client:
            known = client.query("order-17").state == "pending"
            assert known is expected
            client.defer("paid:17", timeout=HANG, op_id="order-17")
            client.flush()
    statement = 'within your program (`Config(data_dir=Path("data"))` instead of `memory=True`)'
    assert statement in text_of("docs/howto/delayed-jobs.md")


def test_a_task_that_rearms_itself():
    """howto/heartbeats.md: by `add`."""
    clock, moved = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())

    def again():
        moved.append(timer.reschedule(task, 1))
        timer.add(task)

    task = timer.schedule(1, again)
    for _ in range(2):
        clock.advance(1)
        timer.advance_clock()
    assert moved == [False, False]
    timer.close()
    statement = "there `timer.add(task)` re-arms the task, and `reschedule` returns False"
    assert statement in text_of("docs/howto/heartbeats.md")


@dataclasses.dataclass
class Amount:
    """A value of a program."""

    cents: int


def test_what_a_value_may_be():
    """service.md: what MessagePack can hold."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    moment = datetime(2027, 3, 1, 9, tzinfo=timezone(timedelta(hours=1)))
    naive = moment.replace(tzinfo=None)
    sent = [
        b"x",
        moment,
        (1, 2),
        {3},
        Amount(5),
        Decimal("1.10"),
        UUID(int=7),
        moment.date(),
        naive,
    ]
    texts = ["1.10", str(UUID(int=7)), "2027-03-01", "2027-03-01T09:00:00"]
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        paid = client.defer("paid:17", timeout=HANG)
        client.complete("paid:17", sent)
        arrived = paid.result(HANG)
        assert arrived == [b"x", moment, [1, 2], [3], {"cents": 5}, *texts]
        assert arrived[1].tzinfo is UTC
        deep = json.loads("[" * (MAX_LEVELS + 1) + "]" * (MAX_LEVELS + 1))
        for call in (client.complete, lambda key, value: client.defer(key, payload=value)):
            for value in (object(), deep):
                with pytest.raises(TypeError):
                    call("paid:17", value)
        with pytest.raises(TooLarge):
            client.complete("paid:17", "x" * config.max_payload_bytes)
    page = text_of("docs/service.md")
    assert (
        f"what MessagePack can hold, in at most {MAX_LEVELS} levels of lists and dicts (else "
        "`TypeError`). A tuple or set arrives as a list, a dataclass as a dict, a Decimal, UUID, "
        "date or naive datetime as a text, numpy's float64 as a float; bytes arrive unchanged, "
        "and an aware datetime in UTC."
    ) in page


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (OPERATIONS, "submitted_ms"),
        (EVENTS, "at_ms"),
        (EXTENSIONS, "at_ms"),
        (OUTCOMES, "at_ms"),
        (JOBS, "ended_ms"),
    ],
)
def test_which_day_a_row_of_a_journal_has(table, column):
    """service.md: of its submission, event, extension or end."""
    assert table.time_column == column
    statement = "A date is the UTC day of the row's submission, event, extension or end."
    assert statement in text_of("docs/service.md")


def test_how_soon_another_worker_gets_a_job():
    """service.md: when the kernel gives a connection up whose machine is lost."""
    seconds = router_socket._UNCONFIRMED_MS // 1000
    assert f"if its machine is lost, within some {seconds} s" in text_of("docs/service.md")


def test_a_handler_without_a_time_limit():
    """service.md: by default it has none."""
    assert inspect.signature(Worker.on).parameters["timeout"].default is None
    assert "*Time limit.* By default none." in text_of("docs/service.md")


def test_a_job_of_a_kind_that_no_worker_handles():
    """service.md: it waits, without an error."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop")
        worker.on("mail")(lambda job: job.kind)
        with worker:
            lost = client.schedule(0, kind="mial")
            assert client.schedule(0, kind="mail").result(HANG) == "mail"
            statuses = [lost.status()]
            with Client(service.server.address) as other:  # of a random name
                statuses.append(other.schedule(0, kind="mail").status())
    reason = ("ready", "no worker of this client for this kind")
    assert [(status.state, status.why) for status in statuses] == [reason, reason]
    assert f"`{reason[1]}`" in text_of("docs/troubleshooting.md")
    statement = (
        "a job of a kind that no worker of its client handles stays `ready`, without an error"
    )
    assert statement in text_of("docs/service.md")


def test_a_new_key_without_a_gap(tmp_path):
    """service.md: two keys of a client at a time; without limits of its own one may do all."""
    keys = KeyStore(tmp_path / "keys")
    for name in ("shop", "shop-2"):
        keys.allow(name, keys.new(name).public, Access(name, ["shop"], ["submit"]))
    keys.revoke("shop")
    (allowed,) = keys.allowed().values()
    assert (allowed.label, allowed.names, allowed.rights) == ("shop-2", ("shop",), ("submit",))
    keys.allow("shop-3", keys.new("shop-3").public)
    other = keys.allowed()[keys.pair("shop-3").public]
    assert (other.names, other.rights) == ((), RIGHTS)
    assert (
        "`keys new shop-2`, `keys allow shop-2`, SIGHUP; give the client the new pair; `keys "
        "revoke shop`, SIGHUP. With `allow` repeat the `--rights` of the old key, and its names: "
        "`--name shop`. Otherwise the new key has all rights under any name."
    ) in text_of("docs/service.md")


@pytest.mark.parametrize(("rights", "names"), [("submit", ("ops",)), ("submit,administer", ())])
def test_which_names_a_key_may_use(tmp_path, rights, names):
    """service.md: its own; but any, if it may administer."""
    directory = ("--keys-dir", str(tmp_path / "keys"))
    assert main(["keys", "new", "ops", *directory]) == 0
    assert main(["keys", "allow", "ops", "--rights", rights, *directory]) == 0
    (allowed,) = KeyStore(tmp_path / "keys").allowed().values()
    assert allowed.names == names
    sentence = "A key whose `--rights` lack `administer` may use only the client name"
    assert sentence in text_of("docs/service.md")


SECRET = "0xC0FFEE"


def test_what_a_server_does_not_log(caplog):
    """service.md: payloads and values, of requests that it refuses, too."""
    caplog.set_level("DEBUG")
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="", max_payload_bytes=100)
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop", max_attempts=1)
        worker.on("fails")(lambda _: 1 // 0)
        with worker:
            job = client.schedule(0, kind="fails", payload=SECRET)
            eventually(lambda: job.status().state == "dead")
            assert client.job(job.id).payload == SECRET
        client.complete("paid:17", SECRET, hold=60)
        with pytest.raises(TooLarge):
            client.complete("paid:17", SECRET * 100)
    assert "ZeroDivisionError" in caplog.text  # the worker's
    assert SECRET not in caplog.text
    statement = "log no payload, value or token; a worker logs what its handlers raise."
    assert statement in text_of("docs/service.md")


def logged(path):
    """Return the names in the arguments of a module's calls of its log."""
    return {
        getattr(name, "attr", None) or getattr(name, "id", None)
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("log.")
        for argument in call.args[1:]
        for name in ast.walk(argument)
    }


def test_no_call_logs_a_secret():
    """As above, of all calls in the rooms of server and gateway; nor is each request logged."""
    rooms = ("auth", "cluster", "gateway", "http", "server", "store")
    paths = [p for room in rooms for p in (ROOT / "purgatory/service" / room).rglob("*.py")]
    names = set().union(*map(logged, paths))
    assert "client" in names
    assert not names & {"body", "frame", "headers", "payload", "result", "token", "value"}
    assert "self.access_log = False" in (ROOT / "purgatory/service/http/listening.py").read_text()


def refusal(client):
    """Return why a client has no answer at once."""
    with pytest.raises(RequestTimeout) as error:
        client.stats()
    return str(error.value)


@pytest.mark.parametrize("wrong", ["client", "server"])
def test_why_a_connection_is_refused(tmp_path, wrong):
    """troubleshooting.md: by the key of the client, or of the server."""
    config = Config(data_dir=tmp_path, memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    keys = KeyStore(config.keys_dir)
    pairs = {name: keys.new(name) for name in ("server", "shop", "stranger")}
    keys.allow("shop", pairs["shop"].public)
    own, server = {"client": ("stranger", "server"), "server": ("shop", "shop")}[wrong]
    options = {
        "public_key": pairs[own].public,
        "secret_key": pairs[own].secret,
        "server_key": pairs[server].public,
    }
    with (
        ServiceDaemon(config) as service,
        Client(service.server.address, timeout=0.05, **options) as client,
    ):
        eventually(lambda: refusal(client).endswith("(the server refused the connection)"))
        client.close(0)
    page = text_of("docs/troubleshooting.md")
    assert (
        "the client has no key, its key is not on the allow list, or its server key is another "
        "server's"
    ) in page


def test_which_port_a_firewall_opens():
    """troubleshooting.md: that of the default `bind`."""
    port = Config().bind.rpartition(":")[2]
    assert f"or open the port ({port})" in text_of("docs/troubleshooting.md")


def test_how_a_change_is_refused_while_the_disk_is_full():
    """troubleshooting.md: by `StoreFailed`."""
    assert isinstance(refusal_of(StoreError("database or disk is full")), StoreFailed)
    assert "refuses changes with `StoreFailed` until then" in text_of("docs/troubleshooting.md")


def test_a_killed_process_has_no_lock(tmp_path):
    """troubleshooting.md: the file of the lock alone locks nothing."""
    program = (
        "import pathlib, signal, sys; from purgatory.durable_files import DirectoryLock; "
        "lock = DirectoryLock(pathlib.Path(sys.argv[1]), 'lock'); print('locked', flush=True); "
        "signal.pause()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"locked\n"
            with pytest.raises(BlockingIOError):
                DirectoryLock(tmp_path, "lock")
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    DirectoryLock(tmp_path, "lock").close()
    statement = "locked the data directory; its end, also by `kill -9`, frees the lock"
    assert statement in text_of("docs/troubleshooting.md")
