"""What the pages about the inside state of limits, tables, scripts and figures is in the code."""

import argparse
import ast
import importlib
import re
import subprocess
import sys
import threading

import pytest
from bench_all import SCRIPTS
from prometheus_client import CollectorRegistry

import mq
from purgatory import Purgatory
from purgatory.aio.loop_delivery import PORTION
from purgatory.cli.jobs.look import _LIST as _JOBS
from purgatory.cli.operations import _LIST
from purgatory.cli.spark import stream as stream_command
from purgatory.core.operations.keyed import KeyedOperation
from purgatory.core.purgatory_core import PurgatoryCore
from purgatory.core.section_lists import SHARDS, AtomicWatchLists
from purgatory.service import Client, Config, ServiceDaemon, Worker
from purgatory.service.gateway.outcomes import _QUIET_S
from purgatory.service.job_messages import (
    CancelJobs,
    CountJobs,
    JobFilter,
    KindOverview,
    ListJobs,
)
from purgatory.service.protocol import Query, ReadOperations, SubmissionOptions
from purgatory.service.server.records.retention import (
    DELETION_DELAY_MS,
    RETAINED_OUTCOMES,
    RETAINED_OUTCOMES_MS,
)
from purgatory.trace.tables import REQUIRED, TABLES
from purgatory.trace.validation import ColumnType
from tests.test_docs import DIARY, ROOT, text_of
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import StepServer, job, operation
from tests.timingwheel.test_timer_fork import in_child
from timingwheel import InlineExecutor, ManualClock, Timer, TimerForked
from timingwheel.wheel_state import DRAIN_BATCH

NUMBER = re.compile(r"\d[\d,.]*\d|\d")


def rows_of(page, head):
    """Return the cells of the table whose header begins with `head`, without header and line."""
    text = (ROOT / "docs" / page).read_text()
    table = text[text.index(f"\n| {head} |") + 1 :].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


# Traces


TYPES = {
    ColumnType.TEXT: "string",
    ColumnType.TEXTS: "list of strings",
    ColumnType.INT32: "int32",
    ColumnType.INT64: "int64",
    ColumnType.BOOL: "bool",
}


def described(column):
    """Return how the table of traces.md describes a column of an input."""
    default = "" if column.required else f" (default {column.default or 'empty'})"
    if column.type in {ColumnType.INT32, ColumnType.INT64, ColumnType.BOOL} and not column.required:
        default = f" (default {str(column.default).lower()})"
    return f"`{column.name}` {TYPES[column.type]}{default}"


def test_the_tables_of_a_trace():
    """traces.md has each table and column, and of inputs the types and defaults."""
    rows = dict(rows_of("traces.md", "table"))
    tables = {table.name: table for table in TABLES}
    assert rows.keys() == tables.keys()
    for name, text in rows.items():
        columns = tables[name].columns
        if name == "outcomes":
            named = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))
            assert named == [column.name for column in columns]
        else:
            shown = text.replace(" (counted from `at_ms`)", "")
            assert shown == ", ".join(map(described, columns))
    (outcome,) = (each for each in tables["outcomes"].columns if each.name == "outcome")
    assert outcome.default is REQUIRED


# Performance


def test_the_figures_are_those_of_the_diary():
    """performance.md has no figure in a table that the diary does not have."""
    known = set(NUMBER.findall(DIARY.read_text()))
    text = (ROOT / "docs" / "performance.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 60
    unknown = {number for row in rows for number in NUMBER.findall(row)} - known
    assert unknown - {"2,000"} == set()  # of `bench_expiry.py`, in words there


def test_how_much_faster_jobs_are():
    """The last column of performance.md is the quotient of the one before."""
    rows = rows_of("performance.md", "| submits/s | jobs done/s")
    done = [float(row[2].replace(",", "")) for row in rows]
    assert rows[0][3] == ""
    for row, each in zip(rows[1:], done[1:], strict=True):
        assert float(row[3]) == pytest.approx(done[0] / each, rel=0.01)  # which are rounded


def test_what_make_bench_leaves_out():
    """performance.md names the scripts that have figures there, and are not in `make bench`."""
    text = text_of("docs/performance.md")
    named = set(re.findall(r"\bbench_\w+\.py", text))
    said = re.search(r" Run (.*?) by themselves\.", text)[1]
    run = {f"bench_{name}.py" for name in SCRIPTS}
    assert set(re.findall(r"bench_\w+\.py", said)) == named - run
    assert all((ROOT / "benchmarks" / name).exists() for name in named)


def test_what_a_wait_in_a_loop_costs():
    """asyncio.md has the range of the table of performance.md, and the size of a portion."""
    rows = rows_of("performance.md", "| asyncio: 1 key")
    ratios = [[float(re.search(r"\(([\d.]+)\)", cell)[1]) for cell in row[1:]] for row in rows]
    least, most = (round(pick(map(pick, ratios)), 1) for pick in (min, max))
    text = text_of("docs/asyncio.md")
    assert f"a wait costs [{least} to {most} times]" in text
    assert f"handles {PORTION} waits in a step" in text


# Locks and atomicity


def test_the_sizes_of_sections_and_batches():
    """locks.md and atomicity.md have those of Python and of C."""
    source = (ROOT / "_purgatory_cpython" / "_sections.c").read_text()
    groups, of_each = (
        int(re.search(rf"#define {name} (\d+)", source)[1]) for name in ("GROUPS", "IN_GROUP")
    )
    assert f"operations share {groups * of_each:,}, chosen" in text_of("docs/atomicity.md")
    assert f"are in {SHARDS} *shards*" in text_of("docs/atomicity.md")
    text = text_of("docs/locks.md")
    assert "at most 128 tasks again (1024 where compiled)" in text
    assert DRAIN_BATCH in {128, 1024}


def test_which_operations_have_a_lock_of_values():
    """locks.md: those with a `need` above 1, whatever number of keys they have."""
    assert "the values of an operation with a `need` above 1" in text_of("docs/locks.md")
    assert KeyedOperation(1, need=2)._op_values_lock is not None
    assert KeyedOperation(1)._op_values_lock is None


def test_which_timers_have_lanes():
    """Those without `max_pending`; tests/timingwheel/test_lanes.py makes both."""
    assert "a timer without `max_pending` has up to eight [*lanes*]" in text_of("docs/locks.md")
    assert "further threads share (`timingwheel/lanes.py`), unless the timer has `max_pending`" in (
        text_of("docs/atomicity.md")
    )


def test_tasks_of_a_tick_run_in_any_order():
    """A task that cascades runs behind one that was added later: no page promises an order."""
    clock = ManualClock()
    timer = Timer(tick_ms=1, wheel_size=3, clock=clock, executor=InlineExecutor())
    ran = []
    timer.schedule(0.004, ran.append, "first added")
    clock.advance(0.002)
    timer.advance_clock()
    timer.schedule(0.002, ran.append, "last added")
    for _ in range(2):
        clock.advance(0.001)
        timer.advance_clock()
    assert ran == ["last added", "first added"]
    assert "and those of one tick in any order" in text_of("docs/library.md")
    assert "order of adding" not in text_of("docs/atomicity.md")


def test_which_purgatory_has_a_loop_of_its_own():
    """locks.md: the one with a shared timer, beside that timer's reaper."""
    assert "A purgatory with a shared timer has a loop of its own" in text_of("docs/locks.md")
    with Timer("shared") as timer, Purgatory("sharing", timer=timer), Purgatory("alone"):
        names = {thread.name for thread in threading.enumerate()}
    assert "sharing-bus" in names
    assert "alone-bus" not in names


def test_which_figures_a_forked_child_reads():
    """locks.md: a purgatory's; a timer's raise, see tests/timingwheel/test_timer_fork.py."""
    assert "Only `close` does nothing, and a purgatory's figures can be read." in text_of(
        "docs/locks.md"
    )
    purgatory = Purgatory()

    def check():
        assert (purgatory.delayed, purgatory.watched, purgatory.stats().pending) == (0, 0, 0)
        with pytest.raises(TimerForked):
            purgatory.timer.stats()

    in_child(check)
    purgatory.close()


def test_how_long_a_key_that_is_not_built_in_counts():
    """atomicity.md: until no key is watched, not only until that one is not."""
    said = "Once such a key is watched, all changes go through the lock until no key is watched."
    assert said in text_of("docs/atomicity.md")
    lists = AtomicWatchLists("lists")
    plain, other = KeyedOperation(1), KeyedOperation(1)
    lists.watch(plain, ("paid",))
    lists.watch(other, (1.5,))
    found = [lists._may_be_section()]
    for each in (other, plain):
        lists.remove(each)
        found.append(lists._may_be_section())
    assert found == [False, False, True]


def test_the_versions_whose_lists_crash():
    """atomicity.md has the versions of CPython that the header of C has."""
    source = " ".join((ROOT / "_purgatory_cpython" / "_memory_shortage.h").read_text().split())
    versions = re.search(r"PyList_New of CPython ([\d.]+(?: and [\d.]+)*)", source)[1]
    assert f"`PyList_New` of CPython {versions} crashes" in text_of("docs/atomicity.md")


# Metrics


def test_whose_name_a_metric_has():
    """Metrics of a shared timer have its name, those of a timer of its own the purgatory's."""
    registry = CollectorRegistry()
    with (
        Timer("ticks") as timer,
        Purgatory("shared", timer=timer, registry=registry),
        Purgatory("own", registry=registry),
    ):
        names = {
            sample.labels["name"]
            for family in registry.collect()
            if family.name.startswith("timingwheel_")
            for sample in family.samples
        }
    assert names == {"ticks", "own"}
    assert "`timingwheel_` metrics of a shared timer have the timer's" in text_of("docs/library.md")


# Spark


def test_the_commands_of_spark():
    """spark.md has a row for each command; the reference is made of the parsers."""
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text()
    commands = re.findall(r"^## (purgatory spark \w+)$", reference, re.MULTILINE)
    assert sorted(f"`{each}`" for each in commands) == sorted(
        row[0] for row in rows_of("spark.md", "command")
    )


def numbers_of_spark():
    """Return what spark.md says, from the values of the code."""

    def room(name):
        return importlib.import_module(f"purgatory.spark.{name}")

    findings, output = room("report.findings"), room("stream.output")
    return [
        f"(default: {WORDS[room('stream.query').DEFAULT_WATERMARK_MS // 60_000]} minutes; each run",
        f"(one for each {output._MAX_ROWS_PER_FILE:,})",
        f"one for each {room('stream.compaction').DEFAULT_BYTES >> 20} MB (`--megabytes`)",
        f"at most one completion in a {WORDS[findings.LOST_COMPLETIONS]} is lost",
        f"shorter by a {WORDS[round(1 - findings._SHORTER, 3)]} or more",
        f"a {WORDS[findings._MORE]} more would complete",
        f"A kind with more than {WORDS[findings._MAX_TIMEOUTS]} timeouts,",
        f"or fewer than a {WORDS[findings.MIN_OPERATIONS]} completions, gets no proposal",
        f"that a {WORDS[findings._HOT_SHARE]} of all operations watch",
        f"at most a {WORDS[room('report.wheel_tuning')._MAX_LATE]} of the median timeout",
        f"Up to a {WORDS[room('report.report').EXACT_ROWS]} outcomes are computed exactly",
        f"rounded to {WORDS[room('report.aggregates').DIGITS]} digits",
        f"less often by a {WORDS[room('report.comparison')._SHARE]} of their operations and by",
        f"changed by a factor of more than {room('report.comparison')._WAIT}",
    ]


WORDS = {
    0.01: "percent",
    0.1: "tenth",
    0.2: "fifth",
    4: "four",
    10: "ten",
    100: "hundred",
    1000: "thousand",
    1_000_000: "million",
}


def test_the_numbers_of_spark():
    """Limits, shares and sizes of spark.md are those of the code."""
    pytest.importorskip("pyspark")
    text = text_of("docs/spark.md")
    assert [each for each in numbers_of_spark() if each not in text] == []


def test_the_tables_of_the_data_source():
    """spark.md names each choice of the option `table` but the default."""
    read = pytest.importorskip("purgatory.spark.read")
    text = text_of("docs/spark.md")
    said = re.search(r"The option `table` chooses (.*?) instead of outcomes", text)[1]
    assert {*re.findall(r"`(\w+)`", said), "outcomes"} == set(read._TABLES)


@pytest.mark.parametrize("ending", ["once", "until_end", None])
def test_when_a_stream_waits_for_files(monkeypatch, ending):
    """spark.md: until the first file is there, except with `--once` and `--until-end`."""
    said = "in each of them, also that of `--extensions`, except with `--once` and `--until-end`"
    assert said in text_of("docs/spark.md")
    waited = []

    class Sources:
        @staticmethod
        def wait_for_first_file(*arguments):
            waited.append(arguments)

        @staticmethod
        def directory_source(*arguments):
            return arguments

    monkeypatch.setattr(stream_command, "import_extra", lambda *_: Sources)
    given = {"once": False, "until_end": False, "kafka": None}
    given |= dict.fromkeys(stream_command._TABLES, "in")
    given |= {f"{table}_option": [] for table in stream_command._TABLES}
    arguments = argparse.Namespace(**given | ({} if ending is None else {ending: True}))
    for table in stream_command._TABLES:
        stream_command._source(None, arguments, table, {}, None, print)
    assert len(waited) == (0 if ending else 3)


def test_object_stores_are_refused():
    """spark.md: a checkpoint on one is refused; HDFS, ABFS and a disk are not."""
    checkpoint = pytest.importorskip("purgatory.spark.stream.checkpoint")
    assert "A checkpoint on an object store is refused" in text_of("docs/spark.md")
    for scheme in ("s3", "s3a", "gs"):
        with pytest.raises(checkpoint.SparkError):
            checkpoint._raise_if_object_store(f"{scheme}://bucket/checkpoint")
    for place in ("hdfs://host/checkpoint", "abfs://files@host/checkpoint", "/checkpoint"):
        checkpoint._raise_if_object_store(place)


def test_pandas_skips_what_is_no_outcome(tmp_path):
    """spark.md: of an output pandas reads the outcomes alone."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for place in ("part-0.parquet", "_late/events/part-0.parquet", "_rejected/part-0.parquet"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        pandas.DataFrame({"op_id": [place]}).to_parquet(tmp_path / place)
    assert list(pandas.read_parquet(tmp_path)["op_id"]) == ["part-0.parquet"]


# Design


def test_the_names_of_a_workers_threads():
    """design.md has each."""
    with (
        ServiceDaemon(Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")) as service,
        Client(service.server.address, name="office") as client,
    ):
        worker = Worker(service.server.address, name="office", concurrency=1)
        worker.on("plain")(lambda job: job.id)

        @worker.on("async")
        async def run(job):
            return job.id

        with worker:
            for kind in ("plain", "async"):
                client.schedule(0, kind=kind).result(HANG)
            names = {thread.name for thread in threading.enumerate()}
    started = {name for name in names if name.startswith("office-worker")}
    said = re.search(r"\| (`NAME-worker`.*?) \| `Worker.start`", text_of("docs/design.md"))[1]
    assert {name.replace("office", "NAME") for name in started} == set(re.findall("`(.*?)`", said))


def test_the_calls_for_signal_handlers():
    """CHANGELOG.md names each `*_later` of a purgatory."""
    said = re.search(r"((?:`\w+`,? )+)from any thread, finalizer", text_of("CHANGELOG.md"))[1]
    calls = {name for name in dir(Purgatory) if re.fullmatch("[a-z]+_later", name)}
    assert set(re.findall("`(.*?)`", said)) == calls


def test_the_names_of_the_other_threads():
    """design.md has each that the packages start; a command's line of progress is its own."""
    named = {
        keyword.value.value
        for package in ("timingwheel", "mq", "purgatory")
        for path in (ROOT / package).rglob("*.py")
        if "cli" not in path.parts
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "InterruptibleThread"
        for keyword in call.keywords
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
    }
    with mq.Context() as context, context.socket(mq.PAIR):
        reapers = {thread.name for thread in threading.enumerate()}
    assert any(re.fullmatch(r"mq-reaper-\d+", name) for name in reapers)
    said = set(re.findall("`(.*?)`", " ".join(row[0] for row in rows_of("design.md", "thread"))))
    assert named | {"mq-reaper-1"} <= said


# Simulation


@pytest.mark.parametrize(("option", "code"), [("--steered", 0), ("--cluster", 1)])
def test_what_needs_psycopg(option, code):
    """simulation.md: only worlds of two servers need the extra `postgres`."""
    assert "with the extra `simulation`; the worlds of two servers need `postgres`, too." in (
        text_of("docs/simulation.md")
    )
    program = (
        "import sys; sys.modules['psycopg'] = None; from tests.simulation import __main__ as m"
    )
    command = f"{program}; sys.exit(m.main(['{option}', '--seeds', '1', '--seconds', '1']))"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("psycopg" in done.stderr) == bool(code)


# Coming from


def test_which_figures_are_approximate():
    """coming-from.md: both properties, as their docstrings have it."""
    said = "exact, O(1); compiled without the interpreter lock approximate while threads change"
    assert f"`watched`, `delayed`: {said}" in text_of("docs/coming-from.md")
    assert "exact as `watched` is" in PurgatoryCore.delayed.__doc__
    assert "without the interpreter lock, approximate" in PurgatoryCore.watched.__doc__


# Changes


def test_which_copy_is_made_beside_a_running_server():
    """CHANGELOG.md, as service.md: a restored server is in place of the first, not beside it."""
    assert "in place of the original server, not beside it" in text_of("docs/service.md")
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert "`purgatory backup` beside a running server, and `purgatory restore`;" in changes


def test_what_an_overview_has_of_a_kind():
    """CHANGELOG.md: these figures, and no reason in words."""
    figures = ("kind", "counts", "oldest_ready_ms", "workers", "paused")
    assert KindOverview.__struct_fields__ == figures
    said = "by kind and state, with how long the oldest has waited, the workers of the kind and "
    assert said in " ".join((ROOT / "CHANGELOG.md").read_text().split())
    said = "Of a kind also the wait of the oldest ready job, the workers, and whether it is paused."
    assert said in Client.overview.__doc__


# Commands


def test_how_long_a_list_has_what_has_ended():
    """`purgatory list` says it: not for as long as the ids are remembered, as `query` has them."""
    assert "ended ones for ten minutes after their outcomes were acknowledged" in _LIST
    assert f"of many, also\nended jobs, the last {RETAINED_OUTCOMES:,}." in _LIST
    server = StepServer(None)
    server.hello()
    submission = operation("a", "k")
    submission.options = SubmissionOptions(86_400_000)
    server.submit(submission)
    [outcome] = server.complete_and_push("k")[1]
    server.acknowledge(outcome.number)
    server.pass_time(RETAINED_OUTCOMES_MS)
    assert [one.op_id for one in server.ask(ReadOperations).states] == ["a"]
    server.pass_time(DELETION_DELAY_MS)
    assert server.ask(ReadOperations).states == []
    assert server.ask(Query, ["a"]).states[0].state == "completed"
    server.store.close()


def test_how_long_a_list_has_ended_jobs():
    """Pages and help say it: lists and counts forget a job before its id is forgotten."""
    server = StepServer(None)
    server.hello()
    server.submit(job("a", tags=("t",), unique_ms=86_400_000))
    assert server.ask(CancelJobs, ["a"]).done == [True]
    server.pass_time(RETAINED_OUTCOMES_MS)
    assert [one.job_id for one in server.ask(ListJobs, JobFilter(tag="t")).jobs] == ["a"]
    assert server.ask(CountJobs).counts == [("", "cancelled", 1)]
    server.pass_time(DELETION_DELAY_MS)
    assert server.ask(ListJobs, JobFilter(tag="t")).jobs == []
    assert server.ask(CountJobs).counts == []
    assert server.job("a").state == "cancelled"
    server.store.close()
    last = f"of many, also acknowledged outcomes, the last {RETAINED_OUTCOMES:,}"
    assert f"lists and counts have the job for ten minutes, {last}" in text_of("docs/service.md")
    assert f"ended ones for ten minutes after their ends, {last}" in " ".join(_JOBS.split())
    assert "has an ended job for ten minutes" in text_of("docs/howto/job-chains.md")
    assert "ended ones [for ten minutes]" in text_of("docs/console.md")


# What other tests show


SHOWN = [
    (
        "design.md",
        "`close`; in a timer without an executor also when a slow task has ended",
        "timingwheel/executors/test_slow_tasks.py",
        "test_the_reaper_may_end_after_a_slow_task",
    ),
    (
        "console.md",
        "Before the console cancels or retries many jobs, it counts the jobs and asks",
        "purgatory/service/gateway/console/test_page.py",
        "test_jobs_without_a_kind",
    ),
    (
        "service.md",
        "A key whose `--rights` lack `administer` may use only the client name that equals its own",
        "purgatory/cli/test_access.py",
        "test_limits",
    ),
    (
        "spark.md",
        "rows of open instants are in `waiting`, not in `watchers`",
        "purgatory/spark/stream/test_query.py",
        "test_the_state_can_be_read",
    ),
    (
        "spark.md",
        "after an outage longer than `--idle` and than `--watermark`, rows of a source may be late",
        "purgatory/spark/stream/test_event_time.py",
        "test_after_which_outage_rows_are_late",
    ),
    (
        "spark.md",
        "of Parquet in each file, of text in the first file of each format",
        "purgatory/spark/tables/test_reader.py",
        "test_of_text_the_first_file_is_looked_at",
    ),
    (
        "spark.md",
        "Rows of Parquet are not checked; a bad row of text fails the query.",
        "purgatory/spark/test_read.py",
        "test_which_rows_are_checked",
    ),
    (
        "traces.md",
        "or writes into the directory of an input table, also through links",
        "purgatory/trace/test_path_conflicts.py",
        "test_every_command_that_reads_and_writes",
    ),
    (
        "protocol.md",
        "is leased no job, and counts towards no limit, until its next request",
        "purgatory/service/server/limits/test_kind_limits.py",
        "test_a_connection_that_let_a_lease_lapse",
    ),
    (
        "howto/nightly-report.md",
        'with `overlap="skip"` they run one after the other, and none is left out',
        "purgatory/service/server/repeats/test_repeat_runs.py",
        "test_all_in_turn_wait_for_the_one_before",
    ),
    (
        "howto/nightly-report.md",
        "for a day how it ended, with an interval below a minute for ten minutes",
        "purgatory/service/server/repeats/test_repeat_runs.py",
        "test_a_run_is_remembered_as_any_job",
    ),
    (
        "protocol.md",
        "also says what `overlap` (`skip`, `allow`) and `missed` (`one`, `none`, `all`) mean",
        "purgatory/service/server/repeats/test_repeat_runs.py",
        "test_ten_times",
    ),
    (
        "protocol.md",
        "a second client with the same id is not answered, or is taken for the first.",
        "purgatory/service/server/network/test_router_socket.py",
        "test_a_peer_with_the_routing_id_of_another",
    ),
    (
        "protocol.md",
        "and refuses what comes later with `closing`.",
        "purgatory/service/server/network/test_reception.py",
        "test_what_comes_to_a_server_that_closes",
    ),
    (
        "gateway.md",
        f"ends within {_QUIET_S:.0f} s, and `--patience` while no server answers;",
        "purgatory/service/gateway/test_outcome_feed.py",
        "test_a_quiet_stream_without_a_server",
    ),
    (
        "mq.md",
        "a thread that finds none free waits up to a second for a closed socket's.",
        "mq/core/test_context_core.py",
        "test_max_sockets",
    ),
    (
        "mq.md",
        "`disconnect` ends all connections to the name, or else the bind",
        "mq/core/test_endpoints.py",
        "test_disconnect_ends_all_connections_to_a_name",
    ),
]


@pytest.mark.parametrize(("page", "said", "file", "name"), SHOWN)
def test_a_sentence_that_another_test_shows(page, said, file, name):
    """The page says it, and the test of the behaviour exists."""
    assert said in text_of(f"docs/{page}")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text()
