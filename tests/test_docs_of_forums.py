"""What the pages answer to questions of a forum is what the code does."""

import asyncio
import contextvars
import importlib
import inspect
import re
import threading

import freezegun
import pytest

from purgatory import OperationExpired, Purgatory
from purgatory.service import (
    Client,
    Config,
    Job,
    JobFailed,
    RequestTimeout,
    Server,
    ServiceDaemon,
    ServiceError,
    Unavailable,
    Worker,
)
from purgatory.service.errors import TimeoutTooLong
from tests.test_docs import ROOT, text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from timingwheel import InlineExecutor, ManualClock, Timer


def test_the_reference_leaves_out_the_methods_of_builtins():
    """docs/conf.py names each built-in class that a public class extends."""
    listed = re.search(r'"inherited-members":[\s(]*"(.*?)"', (ROOT / "docs/conf.py").read_text())
    extended = set()
    for page in (ROOT / "docs/api").glob("*.md"):
        for name in re.findall(r"automodule:: (\S+)", page.read_text()):
            module = importlib.import_module(name)
            for public in getattr(module, "__all__", ()):
                each = getattr(module, public)
                if inspect.isclass(each):
                    extended |= {base for base in each.__mro__ if base.__module__ == "builtins"}
    named = set(listed[1].split(", "))
    assert str in extended
    # The built-in errors add no method of their own.
    assert {base.__name__ for base in extended if not issubclass(base, BaseException)} <= named


def test_frozen_time():
    """howto/testing.md: a purgatory of the program goes by time that freezegun moves."""
    with freezegun.freeze_time("2027-03-01") as frozen, Purgatory() as purgatory:
        future = purgatory.defer("paid:17", timeout=3600)
        frozen.tick(3600)
        assert isinstance(future.exception(HANG), OperationExpired)
    assert "follows time that freezegun freezes" in text_of("docs/howto/testing.md")


def test_one_job_of_a_customer_at_a_time():
    """howto/rate-limits.md: handlers that work within a named lease take turns."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    busy = {1: threading.Lock(), 2: threading.Lock()}
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop")

        @worker.on("export")
        def export(job):
            with client.lease(f"customer:{job.payload}"):
                alone = busy[job.payload].acquire(blocking=False)
                client.flush()  # takes a moment
                busy[job.payload].release()
                return alone

        jobs = [client.schedule(0, kind="export", payload=1 + n % 2) for n in range(8)]
        with worker:
            assert all(job.result(HANG) for job in jobs)
    assert '`with client.lease(f"customer:{number}")`' in text_of("docs/howto/rate-limits.md")


def test_which_directory_of_a_volume(tmp_path):
    """service.md: a new directory in a volume that is open to its group is the server's alone."""
    tmp_path.chmod(0o2775)
    data = tmp_path / "data"
    config = Config(data_dir=data, bind="tcp://127.0.0.1:0", http_bind="", journal=False)
    with Server(config):
        assert data.stat().st_mode & 0o777 == 0o700
    assert "a new directory within the volume as `data_dir`" in text_of("docs/service.md")


def test_a_database_does_not_shrink(tmp_path):
    """service.md: the pages of ended operations stay in the file."""
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="", journal=False)
    database = tmp_path / "purgatory.db"
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        for number in range(200):
            client.defer(f"paid:{number}", timeout=3600, payload="x" * 10_000)
        client.flush()
    full = database.stat().st_size
    assert full > 2_000_000
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        for number in range(200):
            client.complete(f"paid:{number}")
    assert database.stat().st_size >= full
    assert "The file of the database does not shrink" in text_of("docs/service.md")


def test_which_context_a_callback_has():
    """coming-from.md: that of its thread, or the given one."""
    name = contextvars.ContextVar("name", default="none")
    given = contextvars.copy_context()
    given.run(name.set, "mine")
    clock, seen = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())
    given.run(timer.schedule, 0.001, lambda: seen.append(name.get()))
    timer.schedule(0.002, lambda: seen.append(name.get()), context=given)
    clock.advance(1)
    timer.advance_clock()
    assert seen == ["none", "mine"]
    row = "of its scheduler's `contextvars` | only with `context=contextvars.copy_context()`"
    assert row in text_of("docs/coming-from.md")


def test_which_call_schedules_many_jobs():
    """service.md: `schedule_later` does not wait; after `flush` all jobs are there."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        later = [client.schedule_later("1h", kind="mail") for _ in range(1000)]
        client.flush()
        assert client.job_counts() == {("mail", "scheduled"): 1000}
        assert all(each.result(HANG).is_new for each in later)
    assert "`schedule_later`, which returns a future of the job's handle" in text_of(
        "docs/service.md"
    )


def test_a_kind_has_no_more_room_than_its_worker():
    """service.md: `concurrency` of a kind is within the worker's."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    running, most, go_on = [], [], asyncio.Event()
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop", concurrency=2)

        @worker.on("call", concurrency=50)
        async def call(job):
            running.append(job.id)
            most.append(len(running))
            if len(running) == 2:
                go_on.set()
            await go_on.wait()
            await asyncio.sleep(0)
            running.remove(job.id)

        jobs = [client.schedule(0, kind="call") for _ in range(20)]
        with worker:
            for job in jobs:
                job.result(HANG)
    assert max(most) == 2
    assert "is for one worker, at most its own `concurrency`;" in text_of("docs/service.md")


def test_a_repeat_that_no_program_declares():
    """howto/nightly-report.md: it is the server's, and goes on."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service:
        with Client(service.server.address, name="shop") as client:
            client.repeat("poll", every="1h", kind="poll")
        with Client(service.server.address, name="shop") as client:
            assert [each.name for each in client.repeats()] == ["poll"]
    statement = "A repeat that no program declares any more goes on until `delete`."
    assert statement in text_of("docs/howto/nightly-report.md")


def test_a_handler_is_a_plain_function():
    """howto/testing.md: the decorator returns the function, and a test makes its `Job`."""

    @Worker("tcp://127.0.0.1:1", name="shop").on("mail")
    def mail(job):
        return job.payload["to"], job.attempt, job.cancelled.is_set()

    job = Job("mail-17", "mail", {"to": "ada"}, attempt=1, token=1, submitted_ms=0, due_ms=0)
    assert mail(job) == ("ada", 1, False)
    assert "can call it with a `purgatory.service.Job`" in text_of("docs/howto/testing.md")


def test_when_http_answers(tmp_path):
    """service.md: a server over SQLite has loaded its database before it listens for HTTP."""
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    loaded = []
    with ServiceDaemon(config, lambda _, facts: loaded.append(facts["pending"])) as service:
        assert service.url
        with Client(service.server.address) as client:
            client.defer("paid:17", timeout=3600)
            client.flush()
    daemon = ServiceDaemon(config, lambda _, facts: loaded.append(facts["pending"]))
    assert not daemon.url
    with daemon:
        assert loaded == [0, 1]
    assert "both answer once the database is loaded" in text_of("docs/service.md")


def test_where_a_password_is_not_seen():
    """high-availability.md: the environment may have the URL of the store."""
    url = "postgresql://me:secret@db/purgatory"
    config = Config.load(environment={"PURGATORY_STORE": url})
    assert config.store == url
    assert "secret" not in repr(config)
    statement = "give a password in `PURGATORY_STORE`, or in a file with `PGPASSFILE`"
    assert statement in text_of("docs/high-availability.md")


def test_who_is_told_of_a_dead_job():
    """service.md: `result` raises, and no client gets an outcome."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    told = []
    with ServiceDaemon(config) as service:
        worker = Worker(service.server.address, name="shop")

        @worker.on("fax", max_attempts=1)
        def fax(job):
            raise RuntimeError("no paper")

        address = service.server.address
        other = Client(address, name="shop")
        with worker, other, Client(address, name="shop", on_outcome=told.append) as client:
            with pytest.raises(JobFailed):
                client.schedule(0, kind="fax").result(HANG)
            other.defer("paid:17", timeout=0)
            eventually(lambda: told)
    assert [outcome.outcome for outcome in told] == ["expired"]
    statement = "To learn of them, wait in `result` (`JobFailed`), or use the alert"
    assert statement in text_of("docs/service.md")


def test_how_far_ahead_a_time_may_be():
    """service.md: `max_timeout` bounds timeouts, holds, delays and intervals."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    beyond = config.max_timeout + 1
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        with pytest.raises(TimeoutTooLong):
            client.defer("paid:17", timeout=beyond).result(HANG)
        with pytest.raises(TimeoutTooLong):
            client.complete("paid:17", hold=beyond)
        with pytest.raises(TimeoutTooLong):
            client.schedule(beyond, kind="mail")
        with pytest.raises(TimeoutTooLong):
            client.repeat("mail", every=beyond, kind="mail")
    statement = "| a timeout, a `hold`, a job's delay, an interval | 366 days |"
    assert statement in text_of("docs/service.md")


def test_waits_for_a_server_that_does_not_answer():
    """service.md: a lease and a result wait for ever, or for their own timeouts."""
    ended = []

    def enter(client):
        with client.lease("printer"):
            ended.append("held")

    def wait(call):
        try:
            call()
        except ServiceError as error:
            ended.append(type(error))

    with Client("tcp://127.0.0.1:1", timeout=0.2) as client:
        calls = [lambda: enter(client), lambda: client.result("mail-17")]
        threads = [threading.Thread(target=wait, args=[call]) for call in calls]
        for thread in threads:
            thread.start()
        for _ in range(3):
            with pytest.raises(RequestTimeout):
                client.stats()
        with pytest.raises(RequestTimeout):
            client.result("mail-17", timeout=0.001)
        with pytest.raises(RequestTimeout), client.lease("printer", timeout=0.3):
            pass
        assert ended == []
        client.close(0)
        for thread in threads:
            thread.join(HANG)
    assert ended == [Unavailable, Unavailable]
    assert "`lease` and `result` of a job wait for ever by default" in text_of("docs/service.md")
    assert "(None: never) raises LeaseTimeout, or RequestTimeout" in Client.lease.__doc__
