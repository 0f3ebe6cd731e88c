"""What the pages for users state of behaviour, order and defaults is what the code does."""

import concurrent.futures
import importlib
import inspect
import re
import resource
import shlex
import threading
import tomllib
from types import SimpleNamespace

import pytest

import mq
from purgatory import DelayedOperation, HeldFull, Purgatory, PurgatoryClosed
from purgatory.cli.entry_point import UsageError, make_parser
from purgatory.service import Client, Config, ServiceDaemon, Worker, WorkerStuck, errors
from purgatory.service.errors import (
    JobUnknown,
    Malformed,
    RequestTimeout,
    ServerBusy,
    TooManyItems,
    TooManyPending,
    TooManyRemembered,
)
from purgatory.service.gateway.application import _METHODS, ENDPOINTS
from purgatory.service.gateway.endpoint import Endpoint
from purgatory.service.gateway.job_taker import Ask
from purgatory.service.gateway.problems import _STATUS
from purgatory.service.job_messages import JOB_STATES, KindOverview
from purgatory.service.protocol import Work
from purgatory.service.server.jobs import control_requests, waiting_moves
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.job_group import JobGroup
from purgatory.service.server.leases.job_leases import MAX_LOSSES
from purgatory.service.server.leases.job_requests import MAX_KINDS, MIN_LEASE_MS
from purgatory.service.server.leases.ready_jobs import AGED_MS, ReadyJobs
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.limits.kind_limits import KindLimits, TokenBucket
from purgatory.service.server.named_leases.named_leases import MAX_LEASES, MAX_WAITERS
from purgatory.service.server.network.accept_gate import most_descriptors
from purgatory.service.server.network.reception import Reception
from purgatory.service.server.records import retention
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.troubles import job_troubles
from purgatory.testing import ManualPurgatory
from purgatory.trace.tables import JobRow
from tests.test_docs import FENCE, PAGES, ROOT, name_of, text_of
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG, free_port
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import DEFAULT_TICK_MS

CLIENT_TIMEOUT_S = inspect.signature(Client).parameters["timeout"].default


def test_the_columns_of_the_journals_jobs():
    """service.md has each column of the table `jobs`, and no other."""
    page = (ROOT / "docs" / "service.md").read_text()
    table = page[page.index("| column | |") :].split("\n\n")[0]
    names = {
        name
        for line in table.splitlines()[2:]
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert names == set(JobRow._fields)


def test_which_worker_a_row_of_a_job_names(tmp_path):
    """service.md: none, if the job waited for a retry when it was cancelled."""
    parquet = pytest.importorskip("pyarrow.parquet")
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop", retry_delay=60)
        worker.on("fails")(lambda _: 1 // 0)
        with worker:
            job = client.schedule(0, kind="fails")
            eventually(lambda: job.status().state == "retrying")
            assert job.cancel()
    paths = (tmp_path / "data" / "journal" / "jobs").rglob("*.parquet")
    (row,) = [row for path in paths for row in parquet.read_table(path).to_pylist()]
    assert (row["state"], row["attempts"], row["worker"]) == ("cancelled", 1, "")
    statement = "the connection that had the job at its end; empty if none had"
    assert statement in text_of("docs/service.md")


def test_what_a_simulated_server_accepts():
    """howto/testing.md: less than a server by default."""
    pytest.importorskip("apsw")
    config, usual = importlib.import_module("purgatory.testing.world.server").CONFIG, Config()
    assert (config.max_keys, config.max_payload_bytes) < (usual.max_keys, usual.max_payload_bytes)
    page = text_of("docs/howto/testing.md")
    assert f"accepts at most {config.max_keys} keys of an operation" in page
    assert f"{config.max_payload_bytes:,} bytes of a payload, and timeouts" in page


def test_the_glossary_is_in_order():
    """Terms are sorted, each once."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = [term.lower() for term in re.findall(r"^(.+)\n: ", page, re.MULTILINE)]
    assert len(terms) > 70
    assert terms == sorted(set(terms))


def test_a_heartbeat_that_is_seldom_rearmed_is_early():
    """howto/heartbeats.md: re-armed once a second, the callback is up to a second early."""
    clock, silent_for = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())
    heard = []
    timer.schedule(30, lambda: silent_for.append(clock.now_ns() - heard[-1]))
    clock.advance(0.9)
    heard.append(clock.now_ns())  # a message, within a second of the last re-arming
    clock.advance(29.1)
    timer.advance_clock()
    assert silent_for == [pytest.approx(29.1e9)]
    statement = "at most once a second and peer; the callback then comes up to a second early"
    assert statement in text_of("docs/howto/heartbeats.md")


def test_when_no_event_can_be_held():
    """tutorial.md: `complete` with `hold` is refused, for a further key alone."""
    with Purgatory(max_held=1) as purgatory:
        purgatory.complete("a", hold=60)
        assert purgatory.complete("a", hold=60) == purgatory.complete("b") == 0
        waiting = purgatory.defer("b")
        with pytest.raises(HeldFull):
            purgatory.complete("b", hold=60)
        assert not waiting.done()
    statement = "`complete` with `hold` for a further key raises `HeldFull`, and has no effect"
    assert statement in text_of("docs/tutorial.md")


def test_what_max_pending_counts():
    """service.md: jobs as well as operations."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="", max_pending=2)
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        client.schedule(3600, kind="mail")
        client.defer("paid:17", timeout=3600)
        client.flush()
        with pytest.raises(TooManyPending):
            client.schedule(3600, kind="mail")
    page = text_of("docs/service.md")
    row = "| operations, jobs and unacknowledged outcomes | 5,000,000 | `max_pending` |"
    assert row in page


def test_which_attempts_a_restart_forgets(tmp_path):
    """service.md: a first attempt that succeeds is in memory alone."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop", retry_delay=0.01)

        @worker.on("once")
        def once(job):
            return job.attempt

        @worker.on("twice")
        def twice(job):
            return 1 // (job.attempt - 1)

        with worker:
            for kind in ("once", "twice"):
                client.schedule(0, kind=kind, job_id=kind).result(HANG)
        assert [len(client.job(each).history) for each in ("once", "twice")] == [1, 2]
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        assert [len(client.job(each).history) for each in ("once", "twice")] == [0, 2]
    statement = "except a first attempt that succeeded: a restart of the server forgets it."
    assert statement in text_of("docs/service.md")


def test_what_max_remembered_counts():
    """howto/unique-jobs.md: pending jobs, too; and no job without a period."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="", max_remembered=1)
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        client.schedule(3600, kind="mail", job_id="pending")
        with pytest.raises(TooManyRemembered):
            client.schedule(3600, kind="mail", job_id="further")
        assert client.schedule(3600, kind="mail", job_id="further", unique_for=0).is_new
        assert client.schedule(3600, kind="mail").is_new
    page = text_of("docs/howto/unique-jobs.md")
    assert "counts the ids of ended and of pending jobs that have a period." in page
    said = "`--max-remembered N` | ids from callers, remembered or to be remembered (default:"
    assert said in text_of("docs/reference/cli.md")
    assert "and accepts jobs with `unique_for=0` or without a `job_id`." in page


def test_how_many_ended_jobs_without_an_id_are_known(monkeypatch):
    """service.md: the last ones alone; a job with an id is remembered."""
    monkeypatch.setattr(retention, "RETAINED_OUTCOMES", 3)
    monkeypatch.setattr(retention, "DELETED_TOGETHER", 1)
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop")
        worker.on("sum")(lambda job: job.payload)
        with worker:
            given = client.schedule(0, kind="sum", payload=1, job_id="given")
            made_up = client.schedule(0, kind="sum", payload=2)
            assert (given.result(HANG), made_up.result(HANG)) == (1, 2)
            for _ in range(5):
                client.schedule(0, kind="sum").result(HANG)
            eventually(lambda: made_up.status() is None)
        with pytest.raises(JobUnknown):
            made_up.result(HANG)
        assert given.result(HANG) == 1
    statement = "it keeps the last 10,000 ended jobs and acknowledged outcomes of all clients."
    assert statement in text_of("docs/service.md")


def test_which_paths_need_no_token():
    """gateway.md: those that no endpoint answers; `/v1` is the document, too."""
    page = (ROOT / "docs" / "gateway.md").read_text()
    said = {
        path
        for row in re.findall(r"^\| (.*) \| without a token", page, re.MULTILINE)
        for path in re.findall(r"`GET (/[^`]+)`", row)
    }
    answers = {path: methods.get("GET") for path, methods in _METHODS.items()}
    is_open = {path for path, one in answers.items() if not isinstance(one, Endpoint | None)}
    assert {path for path in is_open if "console/" not in path} == {*said, "/v1"}


def test_the_kinds_of_a_worker_take_turns():
    """service.md: `priority` orders the jobs of a kind alone."""
    group, worker = JobGroup(KindLimits()), WorkerConnection(b"1")
    worker.ask(Work(0, {"mail": 1, "report": 1}, 10, 1000))
    for number, (kind, priority) in enumerate([("mail", 0), ("report", 0), ("mail", 10)] * 2, 1):
        record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("c"), "expired", 0)
        group.put(DueJob(record, kind, priority=priority))
    found = [group.pop_for(worker, 0) for _ in range(4)]
    assert [(job.kind, job.priority) for job in found] == [("mail", 10), ("report", 0)] * 2
    statement = "Of the ready jobs of a kind the highest `priority` goes first (-10 to 10)"
    assert statement in text_of("docs/service.md")
    assert "A worker's kinds take turns." in text_of("docs/service.md")


def test_how_many_jobs_a_rate_leases_in_a_second():
    """howto/rate-limits.md: after a quiet second nearly twice as many."""
    bucket, leased = TokenBucket(10, 10, 0), []
    for now_ms in range(1000):
        while bucket.next_ms(now_ms) == now_ms:
            bucket.add(-1.0)
            leased.append(now_ms)
    assert (leased.count(0), len(leased)) == (10, 19)
    statement = "`per_second=10` leases ten jobs at once, and up to nine more within a second."
    assert statement in text_of("docs/howto/rate-limits.md")
    assert "a second on average (`per_second`)" in text_of("docs/glossary.md")
    assert "| `--per-second RATE` | RATE leased a second, on average |" in text_of(
        "docs/reference/cli.md"
    )


def test_how_many_handlers_may_hang():
    """service.md: no more than the `concurrency` of their kind, if that is less."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    end = threading.Event()
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        worker = Worker(service.server.address, name="shop", concurrency=8)
        worker.on("hangs", concurrency=1, timeout=0.05)(lambda _: end.wait(HANG))
        for _ in range(2):
            client.schedule(0, kind="hangs")
        worker.start()
        try:
            with pytest.raises(WorkerStuck):
                worker.wait(HANG)
        finally:
            end.set()
    statement = (
        "If more handlers hang like this than the `concurrency` of the worker or of their kind,"
    )
    assert statement in text_of("docs/service.md")


def test_when_a_job_that_was_taken_ahead_loses_an_attempt():
    """service.md; tests/purgatory/service/server/leases/test_job_leases.py makes the losses."""
    assert MAX_LOSSES == 5
    page = text_of("docs/service.md")
    assert "after five workers have lost their connections with this job next in line, its" in page
    said = (
        "If five connections were lost with the job next to begin, its next attempts begin with the"
    )
    assert said in text_of("docs/protocol.md")


def test_how_long_a_stopping_worker_takes():
    """service.md: so much longer than `--drain`, if no server answers."""
    worker, waited = Worker(name="shop"), []
    worker._thread = SimpleNamespace(join=waited.append)
    worker.stop(0)
    (seconds,) = waited
    statement = f"The end may take {seconds:.0f} s more than `--drain`"
    assert statement in text_of("docs/service.md")


def test_which_waits_for_jobs_are_different():
    """gateway.md: those with other kinds, and with other attempts or leases."""
    assert set(Ask._fields) > {"kinds"}
    assert (
        "limited kinds (also moves and cancellations by filter under way) or different waits"
        in text_of("docs/gateway.md")
    )


def test_from_when_a_task_is_late():
    """glossary.md: from its due time, which is later than its deadline by up to a tick."""
    assert "From a task's due time to its start" in text_of("docs/glossary.md")
    clock = ManualClock()
    timer = Timer(tick_ms=10, clock=clock, executor=InlineExecutor())
    timer.schedule(0.001, list)
    clock.advance(0.010)
    timer.advance_clock()
    assert (timer.stats().fired, timer.stats().lateness.sum_ms) == (1, 0)
    timer.close()


def test_which_limit_drops_connections():
    """service.md: a server without memory's limit accepts more than `max_clients`, to refuse."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most_descriptors(80, 0) > 80 + 8 or soft < 200
    statement = "Above `max_clients` the server refuses a new client: its calls that wait raise"
    assert statement in text_of("docs/service.md")


def test_what_passes_by_itself_is_tried_again():
    """gateway.md: 429, and no 413, if too much of a kind is under way."""
    raising = [inspect.getsource(each) for each in (control_requests, waiting_moves)]
    assert all("raise ServerBusy" in source for source in raising)
    assert (_STATUS[ServerBusy], _STATUS[TooManyItems]) == (429, 413)
    page = text_of("docs/gateway.md")
    assert "moves and cancellations by filter under way" in page


def test_how_late_a_jitter_may_make_a_run():
    """howto/nightly-report.md: of a long interval, too, no later than a day."""
    day = 86_400
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        assert client.repeat("weekly", every=7 * day, jitter=day)
        assert client.repeat("hourly", every=3600, jitter=3600)
        for every, jitter in ((7 * day, day + 1), (3600, 3601)):
            with pytest.raises(Malformed, match="jitter"):
                client.repeat("late", every=every, jitter=jitter)
    assert "A jitter has at most a day, and at most the interval |" in text_of(
        "docs/howto/nightly-report.md"
    )


def test_a_repeat_that_is_run_while_a_run_goes_on():
    """gateway.md: by default nothing is done."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service, Client(service.server.address, name="shop") as client:
        nightly = client.repeat("nightly", every=3600, kind="report")
        assert [nightly.run(), nightly.run()] == [True, False]
    statement = "`done` is false if one goes on, unless the repeat allows overlaps"
    assert statement in text_of("docs/gateway.md")


def test_a_request_that_has_timed_out_is_sent_later():
    """service.md: the client keeps it until a server answers."""
    address = f"tcp://127.0.0.1:{free_port()}"
    with Client(address, name="shop", timeout=0.1) as client:
        future = client.defer("paid:17", timeout=0.1, op_id="order-17")
        with pytest.raises(RequestTimeout):
            client.schedule(3600, kind="mail", job_id="mail-17")
        with pytest.raises(RequestTimeout):
            future.result(HANG)
        client.timeout = HANG
        with ServiceDaemon(Config(memory=True, bind=address, http_bind="")):
            client.flush(HANG)
            assert client.job("mail-17").state == "scheduled"
            assert client.query("order-17").state in {"pending", "expired"}
    page = text_of("docs/service.md")
    assert "The client still has the request, and sends it when a server answers again" in page


def test_the_order_of_ready_jobs():
    """service.md: by priority, then by the time from which each is ready; none starves."""
    queue = ReadyJobs()

    def put(kind, ready_ms, priority):
        job = DueJob(None, kind, due_ms=1, priority=priority)
        job.ready_ms = ready_ms
        queue.put(job)

    for job in (("first", 1, 0), ("second", 2, 0), ("old", 3, -10), ("high", 4, 10)):
        put(*job)
    assert [queue.pop(5).kind for _ in range(3)] == ["high", "first", "second"]
    put("later and high", 6, 10)
    assert queue.pop(3 + AGED_MS).kind == "old"
    page = text_of("docs/service.md")
    assert "of equal ones the job that became ready first" in page
    assert "ready for ten minutes counts as one of the highest priority" in page


def test_what_a_proxy_may_not_buffer():
    """gateway.md: every stream."""
    streams = {each.path for each in ENDPOINTS if each.streams}
    line = re.search(
        r"^ *proxy_buffering off;.*$", (ROOT / "docs/gateway.md").read_text(), re.MULTILINE
    )
    assert set(re.findall(r"/v1/[\w/]+", line[0])) == streams


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("README.md", r"`purgatory gateway` serves (.*?) over HTTP"),
        ("CHANGELOG.md", r"`purgatory gateway`: (.*?) over HTTP"),
    ],
)
def test_what_the_gateway_serves(page, sentence):
    """Not operations alone: what has most routes is named."""
    groups = [each.path.split("/")[2] for each in ENDPOINTS]
    most = {group for group in groups if groups.count(group) > 4}
    assert len(most) > 1
    assert most <= set(re.findall(r"\w+", re.search(sentence, text_of(page))[1]))


def test_why_a_hello_is_refused():
    """protocol.md has each code that the server's check, or a standby, answers a hello with."""
    raised = set(re.findall(r"raise (\w+)", inspect.getsource(Reception._check_hello)))
    codes = {getattr(errors, name).code for name in raised | {"NotAllowed", "Standby", "TooLarge"}}
    assert len(codes) == 7
    page = (ROOT / "docs" / "protocol.md").read_text()
    row = re.search(r"^\| hello \|.*\|(.*)\|$", page, re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)`", row[1])) == codes


def test_the_order_of_the_consoles_troubles():
    """console.md: of kinds, the most jobs first, whether these wait or are dead."""

    def kind(name, **counts):
        return KindOverview(name, tuple(counts.get(each, 0) for each in JOB_STATES), 0, 0, False)

    found = job_troubles([kind("few", ready=2), kind("many", dead=5)])
    assert [re.search("“(.*)”", each)[1] for each in found] == ["many", "few"]
    assert "or are dead, the most jobs first" in text_of("docs/console.md")


def test_what_asyncio_is_faster_at():
    """why.md says of the interpreted wheel what the figures of performance.md say."""
    page = (ROOT / "docs" / "performance.md").read_text().split("## Interpreted")[1]
    names = ("schedule", "drain", "cancel")
    rows = [re.search(rf"^\| {name}.*$", page, re.MULTILINE)[0] for name in names]
    faster = [[float(each) < 1 for each in re.findall(r"\d+\.\d+", row)] for row in rows]
    assert faster == [[False, False], [True, False], [True, True]]
    why = "asyncio cancels timers, and drains ten thousand, faster than the interpreted wheel"
    assert why in text_of("docs/why.md")


def test_how_long_a_takeover_takes():
    """high-availability.md has the figures of the diary: the longest, and the load of a million."""
    diary = (ROOT / "benchmarks" / "DIARY.md").read_text()
    part = diary[diary.index("## Takeovers") :].split("\n## ")[0]
    longest = dict(re.findall(r"^\| (.*, .*) \| [\d.]+ \| ([\d.]*) \|$", part, re.MULTILINE))
    kill = float(longest["kill -9, 100,000 pending"])
    handover = float(longest["handover, 100,000 pending"])
    page = text_of("docs/high-availability.md")
    figures = f"{kill:.1f} s at most in 50 kills, and {handover:.1f} s in 10 handovers"
    assert f"with `--takeover-after 2` and 100,000 pending {figures}." in page
    assert float(longest["kill -9, none pending"]) - 2 < 1  # up to a second
    seconds = re.search(r"A start with a million pending.*: [\d.]+ to ([\d.]+) s over Post", part)
    assert f"some {float(seconds[1]):.0f} s for each million operations" in page


def test_the_pythons_of_the_pages():
    """Those of the metadata, and the free-threaded one that `scripts/pythons` names."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    minors = sorted(
        int(found[1])
        for each in classifiers
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", each))
    )
    assert minors == [*range(minors[0], minors[-1] + 1)]
    for page in ("README.md", "CONTRIBUTING.md", "docs/versions.md"):
        assert f"3.{minors[0]} to 3.{minors[-1]}" in text_of(page)
    pythons = (ROOT / "scripts" / "pythons").read_text()
    lists = re.findall(r'^\w+="(.*)"$', pythons, re.MULTILINE)
    named = {version for each in lists for version in each.split()}
    for page in ("README.md", "docs/versions.md"):
        assert set(re.findall(r"3\.\d+t", text_of(page))) == {"3.14t"} <= named


def test_how_many_processes_share_the_tests():
    """CONTRIBUTING.md: as the Makefile has it."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^WORKERS \?= (\d)$", makefile, re.MULTILINE)[1] == "3"
    two = re.findall(r"^(test-\w+): WORKERS = 2$", makefile, re.MULTILINE)
    assert two == ["test-spark", "test-tools"]
    assert (
        "Three processes share the tests of a suite (`WORKERS`), two the tests of Spark and of the "
        "tools."
    ) in text_of("CONTRIBUTING.md")


def codes_in(page):
    """Return what a page has in code type outside of blocks, each in one line."""
    codes = re.findall(r"`([^`]+)`", FENCE.sub("", page.read_text()))
    return [" ".join(code.split()) for code in codes]


def fault_of(code):
    """Return why a command does not parse; empty if it does."""
    try:
        make_parser().parse_args(shlex.split(code)[1:])
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_in_the_text(page):
    """Each command parses, but for arguments that the text leaves out or names in capitals."""
    left_out = re.compile(
        r"arguments are required|expected one argument|: 'N'; expected|'COMMAND' \("
    )
    codes = [code for code in codes_in(page) if re.match(r"purgatory (?!.*(--help|\[))", code)]
    faults = {code: fault_of(code) for code in codes}
    assert {code: why for code, why in faults.items() if why and not left_out.search(why)} == {}


def test_the_verbs_of_jobs_in_the_terminal():
    """CHANGELOG.md: each of a program's has a command."""
    sentence = re.search(r"States and control: (.*?); the same in", text_of("CHANGELOG.md"))[1]
    names = {"job": "show", "jobs": "list"}
    verbs = re.findall(r"`(\w+)`", sentence)
    assert len(verbs) > 5
    for verb in verbs:
        assert hasattr(Client, verb)
        command = names.get(verb) or re.sub("_jobs?$", "", verb)
        assert "invalid choice" not in fault_of(f"purgatory jobs {command}"), verb


# Options of other programs.
FOREIGN = {
    *("--disable-gil", "--with-thread-sanitizer"),  # of Python's configure
    *("--force-reinstall", "--no-cache-dir"),  # of pip
    "--statedb",  # of Celery
    *("--design", "--one"),  # of benchmarks
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_options_in_the_text(page):
    """Each option that stands alone is one of a command."""
    known = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "docs/reference/cli.md").read_text()))
    named = {
        option
        for code in codes_in(page)
        if code.startswith("--")
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code)
    }
    assert named <= known | FOREIGN


@pytest.mark.parametrize(
    ("page", "statement"),
    [
        ("service.md", f"`close_timeout` ({Config().close_timeout:.0f} s;"),
        ("service.md", f"the client's `timeout` ({CLIENT_TIMEOUT_S:.0f} s)"),
        ("protocol.md", f"`lease_ms` is at least {MIN_LEASE_MS}; "),
        ("protocol.md", f"a request names at most {MAX_KINDS:,} kinds."),
        ("tutorial.md", f"For ticks other than {DEFAULT_TICK_MS} ms"),
        ("howto/one-at-a-time.md", f"at most {MAX_LEASES:,} leases and {MAX_WAITERS:,} programs"),
    ],
)
def test_a_page_states_the_default_of_the_code(page, statement):
    """As `test_limits_on_pages` has it."""
    assert statement in text_of(f"docs/{page}")


@pytest.mark.parametrize(
    ("arguments", "delay_s", "level"),
    [({}, 60, 3), ({}, 30 * 86400, 5), ({"tick_ms": 1}, 30 * 86400, 5)],
)
def test_the_levels_of_long_delays(arguments, delay_s, level):
    """design.md: the level of a minute and of 30 days, with the default ticks and with 1 ms."""
    page = text_of("docs/design.md")
    assert "a minute is in level 3; 30 days are in level 5, and with ticks of 1 ms too" in page
    timer = Timer(clock=ManualClock(), executor=InlineExecutor(), **arguments)
    timer.schedule(delay_s, print)
    assert timer.stats().buckets_occupied == (0,) * level + (1,)
    timer.close()


def test_a_clock_that_goes_back_moves_no_time_back():
    """`Timer`: the time goes on from the last reading."""
    now_ms = [10_000]
    timer = Timer(clock=lambda: now_ms[0], executor=InlineExecutor())
    ran = []
    timer.schedule(5, ran.append, 1)
    timer.advance_clock()
    now_ms[0] = 2_000
    timer.advance_clock()
    now_ms[0] = 6_900
    timer.advance_clock()
    assert not ran
    now_ms[0] = 7_001
    timer.advance_clock()
    assert ran == [1]
    timer.close()


def test_the_result_after_the_own_cancel():
    """`DeferredFuture.cancel`: the standard error, not `OperationCancelled`."""
    with Purgatory() as purgatory:
        future = purgatory.defer("key", timeout=HANG)
        assert future.cancel()
        with pytest.raises(concurrent.futures.CancelledError) as raised:
            future.result()
    assert type(raised.value) is concurrent.futures.CancelledError


class BadOperation(DelayedOperation):
    """Its method raises."""

    def try_complete(self):
        return self.force_complete()

    def on_complete(self):
        raise LookupError("of a method")


def test_whom_an_exception_is_told(caplog):
    """library.md: `on_error` gets those of methods; those of done callbacks are logged."""
    assert "| a done callback of a future | the log;" in text_of("docs/library.md")
    told = []
    with Purgatory(on_error=lambda error, _: told.append(str(error))) as purgatory:
        purgatory.defer("k").add_done_callback(lambda _: 1 / 0)
        purgatory.try_complete_else_watch(BadOperation(9), ["k"])  # is complete already
        assert purgatory.complete("k") == 1
    assert told == ["of a method"]
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("timeout", [None, -1, float("inf"), float("nan"), "1"])
def test_bad_timeouts(timeout):
    """tutorial.md: a number of seconds or a timedelta."""
    assert "`None`, infinity and negative numbers are errors" in text_of("docs/tutorial.md")
    with Purgatory() as purgatory, pytest.raises((TypeError, ValueError), match="expected"):
        purgatory.defer("k", timeout=timeout)


def test_what_still_works_while_a_purgatory_closes():
    """library.md: completions and failures, and no new operation."""
    assert "Meanwhile `complete`, `fail` and `cancel_for_key` still work" in text_of(
        "docs/library.md"
    )
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    purgatory = Purgatory(timer=timer)
    futures = {key: purgatory.defer(key, timeout=60) for key in ("done", "failed", "cancelled")}
    purgatory.close(wait=False, cancel_pending=False, timeout=10)
    for refused in (
        lambda: purgatory.defer("k"),
        lambda: purgatory.complete_later("k"),
        lambda: futures["done"].extend(5),
    ):
        with pytest.raises(PurgatoryClosed):
            refused()
    assert purgatory.complete("done", 1) == 1
    assert purgatory.fail("failed", KeyError("k")) == 1
    assert len(purgatory.cancel_for_key("cancelled")) == 1
    assert futures["done"].result() == 1


def test_which_runs_of_a_recurring_task_are_skipped():
    """howto/testing.md: a large step of the clock skips runs; ManualPurgatory stops at each."""
    assert "a large step of its `ManualClock` skips runs" in text_of("docs/howto/testing.md")
    clock, runs = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())
    recurring = timer.every(10, runs.append, 1)
    clock.advance(3595)
    timer.advance_clock()
    assert (len(runs), recurring.skipped) == (1, 358)
    with ManualPurgatory() as manual:
        recurring = manual.timer.every(10, runs.append, 2)
        manual.advance(3600)
    assert (runs.count(2), recurring.skipped) == (360, 0)


def test_the_bound_of_a_connection_of_mq():
    """mq.md: SNDHWM and RCVHWM are 1,000 by default, and a full sender raises Again."""
    assert "SNDHWM + the peer's RCVHWM messages, each 1,000 by default" in text_of("docs/mq.md")
    with mq.Context() as context:
        puller, pusher = context.socket(mq.PULL), context.socket(mq.PUSH)
        with pytest.raises(mq.Again):  # no peer
            pusher.send(b"", mq.NOBLOCK)
        puller.bind("inproc://full")
        pusher.connect("inproc://full")
        for _ in range(2000):
            pusher.send(b"", mq.NOBLOCK)
        pusher.sndtimeo = 1
        with pytest.raises(mq.Again):
            pusher.send(b"")
        puller.close()
        pusher.close()
