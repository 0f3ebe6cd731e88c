"""What the pages state of names, defaults and limits is what the code has."""

import ast
import asyncio
import contextlib
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from dataclasses import fields

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

import mq
import purgatory
from mq.constants import SocketType
from purgatory import OperationCancelled, Purgatory
from purgatory.aio import AsyncPurgatory
from purgatory.core.purgatory import DEFAULT_MAX_HELD
from purgatory.core.section_lists import SHARDS
from purgatory.service import Client, Config, Worker
from purgatory.service.auth.access import RIGHTS
from purgatory.service.client.futures import MADE_BEFORE_FORK
from purgatory.service.client.jobs.job_handle import JobHandle
from purgatory.service.errors import RequestTimeout, ServiceError
from purgatory.service.gateway.application import ENDPOINTS
from purgatory.service.gateway.document import _PROBLEMS
from purgatory.service.gateway.endpoint import MAX_BODY_BYTES
from purgatory.service.gateway.problems import _STATUS, problem_of
from purgatory.service.gateway.server import MAX_WAIT_S
from purgatory.service.http.request_checks import _FORBIDDEN, _MISDIRECTED
from purgatory.service.job_messages import JOB_STATES, PRIORITIES
from purgatory.service.nesting import MAX_LEVELS
from purgatory.service.server.leases.ready_jobs import AGED_MS
from purgatory.service.server.records.retention import RETAINED_OUTCOMES, RETAINED_OUTCOMES_MS
from purgatory.service.server.state import PORTION
from purgatory.service.worker.handlers import Job
from purgatory.testing.world.world import NS_PER_S
from scripts.draw_architecture import LEAVES_AND_ROOF
from tests.mutants.__main__ import WORLDS as FOUND_IN
from tests.mutants.exact_mutants import WORLDS as FOUND_IN_BY_MODEL
from tests.simulation.jobs.worker_group import JOBS_SETTLE_S
from tests.simulation.steering.job_book import LATER_NS
from tests.test_docs import FENCE, PAGES, ROOT, blocks, environment, name_of
from timingwheel import InlineExecutor, ManualClock, Timer, TimerTask
from timingwheel.lowlevel import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE, MAX_WORKERS, SLOW_TASK_S

# Packages with an `__all__` that are for the project alone.
INNER_ROOMS = {"mq.sockets", "purgatory.cli", "purgatory.journal"}


def public_modules():
    """Return the modules of the API reference."""
    return re.findall(
        r"^\| \[([\w.]+)\]", (ROOT / "docs" / "api" / "index.md").read_text(), re.MULTILINE
    )


def imported_names():
    """Return what snippets and examples import of this project: (place, module, name)."""
    sources = [(each.id, each.values[0]) for each in blocks("python")]
    sources += [(name_of(path), path.read_text()) for path in (ROOT / "examples").glob("*.py")]
    return {
        (place, node.module, alias.name)
        for place, source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in LEAVES_AND_ROOF
        for alias in node.names
    }


def test_the_reference_has_what_the_pages_import():
    """Each name that a snippet or example imports is one of a module of the reference."""
    listed = public_modules()
    spark = (ROOT / "docs" / "api" / "purgatory.spark.md").read_text()
    unknown = {
        (place, module, name)
        for place, module, name in imported_names()
        if f"{module}.{name}" not in spark
        and f"{module}.{name}" not in listed
        and not (module in listed and hasattr(importlib.import_module(module), name))
    }
    assert unknown == set()


def test_the_reference_has_each_front_door():
    """Each package with an `__all__` has a page, and each page a module."""
    doors = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in ("timingwheel", "mq", "purgatory")
        for path in [ROOT / package / "__init__.py", *(ROOT / package).glob("*/__init__.py")]
        if "\n__all__ = [" in path.read_text()
    }
    listed = public_modules()
    assert doors - set(listed) == INNER_ROOMS
    assert {f"{name}.md" for name in listed} | {"index.md"} == {
        path.name for path in (ROOT / "docs" / "api").glob("*.md")
    }
    for name in listed:
        assert importlib.import_module(name), name


def test_the_reference_has_what_needs_the_service():
    """Names of the front door that need the extra."""
    (row,) = re.findall(
        r"^\| \[purgatory\]\(.*$", (ROOT / "docs/api/index.md").read_text(), re.MULTILINE
    )
    needs = row[row.index("`service` for") :]
    assert set(re.findall(r"`(\w+)`", needs)) == {"service", *purgatory._SERVICE}


def settings():
    """Return the defaults of a server's settings."""
    return {each.name: each.default for each in fields(Config)}


# (page, what it says): the values come from the code.
STATEMENTS = [
    ("glossary.md", f"by default {DEFAULT_TICK_MS} ms (`tick_ms`)"),
    ("glossary.md", "Tasks become due at multiples\n  of a tick; deadlines are exact"),
    ("design.md", f"ticks\nof {DEFAULT_TICK_MS} ms and {DEFAULT_WHEEL_SIZE} slots a level"),
    ("library.md", f"the next task runs beside the slow one, up to {MAX_WORKERS} at once"),
    ("design.md", f"Without the interpreter lock they pay: there are {SHARDS}."),
    ("locks.md", f"without the interpreter lock, {SHARDS} shards by key"),
    ("tutorial.md", f"`Purgatory(max_held={DEFAULT_MAX_HELD:_})`"),
    ("howto/delayed-jobs.md", "by default a day (`remember_ended`)"),
    ("service.md", "by default a day (`remember_ended`)"),
    ("glossary.md", f"From {PRIORITIES[0]} to {PRIORITIES[-1]}: of the ready jobs"),
    ("coming-from.md", f"from {PRIORITIES[0]} to {PRIORITIES[-1]}, higher first"),
    *[("glossary.md", f"`{state}`") for state in JOB_STATES],
    ("service.md", f"it keeps the last {RETAINED_OUTCOMES:,} ended jobs"),
    ("protocol.md", f"among the last {RETAINED_OUTCOMES:,}."),
    ("gateway.md", f"submits up to {settings()['max_items']};"),
    ("gateway.md", f"A body has at most {MAX_BODY_BYTES >> 20} MiB."),
    ("gateway.md", f"for `wait` (20 s), at most {MAX_WAIT_S:.0f} s"),
    ("service.md", f"with more than {PORTION} waiting operations or jobs needs room"),
    ("troubleshooting.md", f"`{MADE_BEFORE_FORK.partition(';')[0]}` | the client is the parent's"),
    ("service.md", f'bind = "{settings()["bind"]}"'),
    ("service.md", f'http_bind = "{settings()["http_bind"]}"'),
    ("protocol.md", f"at most {MAX_LEVELS} levels"),
    ("service.md", f"max_pending = {settings()['max_pending']:_}"),
    ("service.md", f'retention = "{settings()["retention"] / 86400:.0f}d"'),
    ("simulation.md", f"all jobs end within {JOBS_SETTLE_S:.0f} seconds"),
    ("simulation.md", f"at most {LATER_NS // NS_PER_S} seconds longer"),
    ("simulation.md", f"found within {FOUND_IN} worlds"),
    ("simulation.md", f"each within {FOUND_IN_BY_MODEL} worlds"),
]


@pytest.mark.parametrize(("page", "statement"), STATEMENTS)
def test_a_page_states_the_value_of_the_code(page, statement):
    """Defaults and limits on the pages are those of the code."""
    text = " ".join((ROOT / "docs" / page).read_text().split())
    assert " ".join(statement.split()) in text


def test_the_statements_in_minutes():
    """The periods that pages write in words are those of the code."""
    assert RETAINED_OUTCOMES_MS == 10 * 60_000
    assert settings()["remember_ended"] == 86400
    assert AGED_MS == 10 * 60_000  # glossary.md: after ten minutes a job counts as the highest
    assert Timer.LEAST_TICK_NS == 10_000  # why.md: ten microseconds, the shortest tick
    assert SLOW_TASK_S == 0.002  # design.md, delayed-jobs.md: two milliseconds


# What these names stand for in the code of a text or a table.
NAMED = {
    "client": [Client],
    "job": [JobHandle, Job],
    "purgatory": [Purgatory, AsyncPurgatory],
    "task": [TimerTask],
    "timer": [Timer],
    "worker": [Worker],
}


def calls_in_text(page):
    """Yield the calls in the prose of a page: of tables "coming from", those in our column."""
    text = FENCE.sub("", page.read_text())
    if page.name == "coming-from.md":
        text = "\n".join(line.split("|")[2] for line in text.splitlines() if line.startswith("|"))
    for code in re.findall(r"`@?([^`\n]+)`", text):
        code = re.sub(r"=(?=[,)])", "=0", code)  # `list(kind=, key=)`
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    yield node


def takes(function, call):
    """Whether a function has parameters of the names with which it is called."""
    parameters = inspect.signature(function).parameters
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return any_name or {each.arg for each in call.keywords} <= set(parameters)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_calls_in_the_text_exist(page):
    """Each call of a client, worker, job or timer that a text names has these arguments."""
    for call in calls_in_text(page):
        kinds = NAMED.get(ast.unparse(call.func.value))
        if kinds is None:
            continue
        found = [getattr(each, call.func.attr) for each in kinds if hasattr(each, call.func.attr)]
        assert any(takes(each, call) for each in found), ast.unparse(call)


@pytest.mark.parametrize(
    ("options", "deadline_s", "moves"),
    [({"tick_ms": 1, "wheel_size": 3}, 0.025, 2), ({}, 60, 3)],
)
def test_how_often_the_design_says_that_a_task_is_moved(options, deadline_s, moves):
    """The worked example of the design, and a minute with the defaults."""
    clock = ManualClock()
    timer = Timer(clock=clock, executor=InlineExecutor(), **options)
    timer.schedule(deadline_s, lambda: None)
    while (delay := timer.delay_to_next()) is not None:
        clock.advance(delay)
        timer.advance_clock()
    assert (timer.stats().fired, timer.stats().cascades) == (1, moves)


def test_the_gateways_routes():
    """The table of the gateway's page has each route, and no other."""
    text = (ROOT / "docs" / "gateway.md").read_text()
    listed = re.findall(r"^\| `([A-Z]+) (/v1/[^`?]*)", text, re.MULTILINE)
    routes = {(each.method, each.path) for each in ENDPOINTS} | {("GET", "/v1/openapi.json")}
    assert sorted(listed) == sorted(routes)


def test_the_gateways_own_codes():
    """The page names each code and status that the gateway has beside the protocol's."""
    service = ROOT / "purgatory" / "service"
    rooms = [*sorted((service / "gateway").glob("*.py")), service / "http" / "request_checks.py"]
    calls = [node for path in rooms for node in ast.walk(ast.parse(path.read_text()))]
    made = [
        [each.value for each in call.args[:2]]
        for call in calls
        if isinstance(call, ast.Call)
        if ast.unparse(call.func) in {"ApiError", "refusal"}
        if all(isinstance(each, ast.Constant) for each in call.args[:2])
    ]
    assert len(made) > 8
    codes = {code for _, code in made} | {
        value.value
        for node in calls
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "code"
    }
    codes |= {problem_of(each).code for each in (RequestTimeout(""), ServiceError(""))}
    of_protocol = (ROOT / "docs" / "protocol.md").read_text().split("## Codes of refusals")[1]
    text = (ROOT / "docs" / "gateway.md").read_text()
    own = re.search(r"failures\), or (.*) of the gateway's own", " ".join(text.split()))[1]
    assert set(re.findall(r"`([\w-]+)`", own)) == {c for c in codes if f"`{c}`" not in of_protocol}
    table = text[text.index("| status | reason |") :].split("\n\n")[0]
    answered = {status for status, _ in made} | {*_PROBLEMS, _FORBIDDEN, _MISDIRECTED}
    assert answered <= set(map(int, re.findall(r"\b\d{3}\b", table)))
    row = re.search(r"^\| 429 \| too many (.*) \|$", table, re.MULTILINE)[1]
    many = [each for each, status in _STATUS.items() if status == 429]
    assert len(re.split(", | or ", row)) == len(many) + 1  # and `too-many-workers`


def test_the_tables_that_rejected_rows_are_of():
    """spark.md names each table of a trace with rules of its own."""
    checks = pytest.importorskip("purgatory.spark.tables.row_checks")
    specs = [each for each in vars(checks).values() if isinstance(each, checks.TableSpec)]
    names = {each.name for each in specs}
    row = re.search(
        r"^\| `table` \|(.*)\|$", (ROOT / "docs" / "spark.md").read_text(), re.MULTILINE
    )
    assert set(re.findall(r"`(\w+)`", row[1])) == names


def names_of(kind):
    """Return the names of the fields of a message; of another type none."""
    return {each.name for each in msgspec.structs.fields(kind)} if is_struct(kind) else set()


def is_struct(kind):
    """Tell whether a type is a message's."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def test_the_gateways_arguments():
    """A row of the table names arguments and fields that its route has."""
    text = (ROOT / "docs" / "gateway.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+) (/v1/[^`?]*)[^`]*` \|(.*)\|$", text, re.MULTILINE)
    said = {(method, path): set(re.findall(r"`(\w+)`", row)) for method, path, row in rows}
    has = {
        (each.method, each.path): {*each.takes, *names_of(each.described), *names_of(each.reply)}
        for each in ENDPOINTS
    }
    known = set().union(*has.values())
    unknown = {route: (said[route] & known) - names for route, names in has.items()}
    assert {route: names for route, names in unknown.items() if names} == {}
    assert sum(len(said[route] & names) for route, names in has.items()) > 40


def test_no_page_promises_too_much():
    """Leases of jobs and acknowledgements are answered from memory: not all answers are on disk."""
    all_of_it = r"\b(everything|all) (that )?[^.]*\b(answered|acknowledged)[^.]*(on disk|survives)"
    promised = [
        name_of(page)
        for page in PAGES
        if re.search(all_of_it, " ".join(page.read_text().split()), re.IGNORECASE)
    ]
    assert promised == []


def test_the_table_of_alerts():
    """service.md has each alert, for how long it waits, and the numbers of its expression."""
    yaml = pytest.importorskip("yaml")
    groups = yaml.safe_load((ROOT / "docs/deploy/prometheus/alerts.yml").read_text())["groups"]
    page = (ROOT / "docs" / "service.md").read_text()
    rows = dict(re.findall(r"^\| `(Purgatory\w+)` \| (.*) \|$", page, re.MULTILINE))
    rules = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    assert list(rows) == list(rules)
    for name, rule in rules.items():
        amount, unit = re.fullmatch(r"(\d+)(\w)|", rule.get("for", "")).groups()
        shown = {"1m": "a minute", "s": f"{amount} s", "m": f"{amount} minutes"}
        assert unit is None or shown.get(rule["for"], shown[unit]) in rows[name], name


def test_the_filters_of_a_cancellation():
    """howto/cancel-jobs.md names all."""
    parameters = [*inspect.signature(Client.cancel_jobs).parameters][1:]
    text = (ROOT / "docs" / "howto" / "cancel-jobs.md").read_text()
    line = re.search(r"^- \*\*Which jobs:\*\*.*$", text, re.MULTILINE)[0]
    assert sorted(re.findall(r"`(\w+)=`", line)) == sorted(parameters)


def test_the_socket_types_of_the_changelog():
    """All but STREAM and the drafts of libzmq."""
    assert "all socket types but STREAM and the drafts" in (ROOT / "CHANGELOG.md").read_text()
    refused = set()
    with mq.Context() as context:
        for each in SocketType:
            try:
                context.socket(each).close()
            except mq.ZMQError:
                refused.add(each)
    assert refused == {each for each in SocketType if each >= SocketType.STREAM}


def test_what_ci_runs():
    """CONTRIBUTING.md names each target of make, and says for how long worlds are simulated."""
    script, makefile = (ROOT / ".ci" / "run").read_text(), (ROOT / "Makefile").read_text()
    words = " ".join(re.findall(r"^step \w+ (.*)$", script, re.MULTILINE)).split()
    run = set(words) & set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    parts = set(re.search(r"^check: ([a-z ]+)##", makefile, re.MULTILINE)[1].split())
    text = (ROOT / "CONTRIBUTING.md").read_text()
    said = re.search(r"\nCI runs `\.ci/run`:.*?\.\n", text, re.DOTALL)[0]
    assert run - parts == set(re.findall(r"`make ([a-z-]+)`", said)) - {"check"}
    assert parts <= run
    shown = re.search(r"^make check +# (.*)$", text, re.MULTILINE)[1]
    assert set(re.findall(r"\w+", shown.replace("tests", "test"))) - {"and"} == parts
    assert "MINUTES=1" in words  # a minute of each of the four kinds
    assert makefile.count("-m tests.simulation ") == 4


def test_which_programs_the_tests_need():
    """CONTRIBUTING.md names those that CI installs, but for npm: tests pass without it."""
    script, text = (ROOT / ".ci" / "run").read_text(), (ROOT / "CONTRIBUTING.md").read_text()
    programs = re.search(r"for tool in ([\w ]+);", script)[1].split()
    programs += re.findall(r"(?:command -v |-x /usr/sbin/)(\w+)", script)
    said = text[text.index("The compiled suite needs") :].split("\n\n")[0]
    assert {"spin", "node", "promtool", "pgbouncer"} < set(programs)
    assert set(programs) - set(re.findall(r"\w+", said)) == {"npm"}


def test_when_a_test_hangs():
    """CONTRIBUTING.md has the bound of pytest-timeout."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    seconds = settings["ini_options"]["timeout"]
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert f"A test that hangs ends after {seconds} seconds" in text


def test_no_page_speaks_of_a_release_that_was_none():
    """The changelog has a single release, so nothing can be of an earlier one."""
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## \[(\d[^]]*)", text, re.MULTILINE) == ["1.0.0"]
    told = [
        name_of(page)
        for page in PAGES
        if re.search(r"(earlier|former|previous)\s+release", page.read_text())
    ]
    assert told == []


def test_what_is_not_public_is_said_alike():
    """A module of the reference that is not public is an exception wherever a page says what is."""
    versions = (ROOT / "docs" / "versions.md").read_text()
    not_public = versions[versions.index("Not public:") :].split("\n\n")[0]
    listed = set(re.findall(r"`([\w.]+)`", not_public)) & set(public_modules())
    assert listed == {"timingwheel.lowlevel"}
    public = re.search(r"^\| Python \|.*$", versions, re.MULTILINE)[0]
    reference = (ROOT / "docs" / "api" / "index.md").read_text().split("\n\n")[1]
    for module in listed:
        assert f"`{module}`" in public
        assert f"`{module}`" in reference


def test_the_methods_that_a_client_has_as_a_purgatory_has():
    """The tutorial names those alone that both have."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    names = re.search(r"a `Client` has (.*), as a purgatory has", text)[1]
    for name in re.findall(r"`(\w+)`", names):
        assert callable(getattr(Client, name))
        assert callable(getattr(Purgatory, name))


def test_the_defaults_of_a_worker():
    """service.md has those of `Worker`."""
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(Worker).parameters.items()
    }
    text = " ".join((ROOT / "docs" / "service.md").read_text().split())
    assert (
        "runs {concurrency} handlers at a time with leases of {lease:.0f} s. A job has".format(
            **defaults
        )
        in text
    )
    assert (
        "{max_attempts} attempts. The delay before the second one is {retry_delay:.0f} s; it "
        "doubles each time, up to {max_retry_delay:.0f} s".format(**defaults)
    ) in text


@pytest.mark.parametrize("defer", [Purgatory.defer, AsyncPurgatory.defer, Client.defer])
def test_how_long_an_operation_waits_without_a_timeout(defer):
    """tutorial.md: 30 seconds."""
    assert inspect.signature(defer).parameters["timeout"].default == 30
    text = " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    assert "Without a `timeout` an operation waits 30 seconds." in text


def test_what_the_end_of_a_block_does():
    """tutorial.md: pending tasks and operations are cancelled."""
    with Timer() as timer, Purgatory() as purgatory:
        task, future = timer.schedule(3600, print), purgatory.defer("k", timeout=3600)
    assert task.cancelled()
    assert isinstance(future.exception(), OperationCancelled)


def test_what_a_heartbeat_costs():
    """A fraction of a microsecond, at ten thousand and at a million, as the figures have it."""
    text = (ROOT / "docs" / "performance.md").read_text()
    row = re.search(
        r"^\| `reschedule` to a new delay, ns \| (\d+) \| (\d+) \|$", text, re.MULTILINE
    )
    assert max(map(int, row.groups())) < 1000


def test_the_query_of_the_jobs():
    """The page says of the query's quantile what the query computes."""
    text = (ROOT / "docs" / "service.md").read_text()
    assert "quantile_cont(run_ms, 0.99)" in text
    assert "the time within which 99 % ran" in text


def test_how_many_files_a_micro_batch_has():
    """The default of `--max-files` is that of the stream's sources."""
    sources = pytest.importorskip("purgatory.spark.stream.sources")
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert f"as many as have {int(sources._MAX_BYTES) >> 20} MB" in text


def test_the_table_of_rights():
    """The service's page has each right in the order of the code."""
    text = (ROOT / "docs" / "service.md").read_text()
    table = text[text.index("| right | requests |") :].split("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == RIGHTS


def test_the_extras_that_the_readme_names():
    """The README says how to install each extra for users."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = set(re.findall(r"timer-purgatory\[(\w+)\]", (ROOT / "README.md").read_text()))
    assert named == set(extras) - {"test", "bench", "docs", "types", "all"}


def requirements_of(extra, extras):
    """Return the names of all distributions that an extra installs."""
    found = set()
    for line in extras[extra]:
        inner = re.match(r"timer-purgatory\[([\w,]+)\]", line)
        for name in inner[1].split(",") if inner else ():
            found |= requirements_of(name, extras)
        if not inner:
            found.add(re.match(r"[\w-]+", line)[0])
    return found


def test_the_reference_can_be_made_from_its_extra_alone():
    """`make docs` in a fresh clone imports each module of the reference, with all it needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    table = (ROOT / "docs" / "api" / "index.md").read_text()
    needed = {
        extra
        for line in table.splitlines()
        if line.startswith("| [")
        for extra in re.findall(r"`(\w+)`", line.split("|")[3])
        if extra in extras
    }
    assert needed >= {"otel", "service", "spark", "trace"}
    installed = requirements_of("docs", extras)
    missing = {each: requirements_of(each, extras) - installed for each in needed}
    assert {each: names for each, names in missing.items() if names} == {}


def test_the_commands_of_the_pages_exist():
    """Each `purgatory NAME` on a page is a command."""
    commands = set(re.findall(r"`purgatory ([a-z]+)\b", "".join(p.read_text() for p in PAGES)))
    shown = subprocess.run(
        [sys.executable, "-m", "purgatory", "--help"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    ).stdout
    known = set(re.findall(r"^    ([a-z]+)\b", shown, re.MULTILINE))
    assert commands <= known, commands - known


def texts_of_the_code():
    """Return all texts in the code of `purgatory`, those of a line together."""
    return "\n".join(
        node.value
        for path in (ROOT / "purgatory").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_the_messages_of_the_troubleshooting_exist():
    """Each message of docs/troubleshooting.md is one that the code has."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(messages) > 20
    texts = texts_of_the_code()
    parts = {part.strip() for message in messages for part in message.split("…")}
    assert [part for part in sorted(parts) if part not in texts] == []


async def _request_of_a_client_that_hangs_up(app):
    """Send a request to an ASGI application, hang up; return whether it still waits then."""
    asked, left = asyncio.Event(), iter([{"type": "http.request", "body": b""}])

    async def receive():
        asked.set()
        return next(left, {"type": "http.disconnect"})

    async def send(message):
        raise AssertionError(message)

    scope = {"type": "http", "method": "GET", "path": "/wait", "headers": [], "query_string": b""}
    request = asyncio.create_task(app(scope, receive, send))
    for _ in range(20):  # the steps in which a framework would cancel its handler
        await asyncio.sleep(0)
    waiting = not request.done()
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    return waiting


@pytest.mark.parametrize("framework", ["starlette", "fastapi"])
def test_a_client_that_hangs_up_cancels_no_handler(framework):
    """docs/howto/web-timeouts.md: the operation waits until its timeout."""
    pytest.importorskip(framework)

    async def main():
        async with AsyncPurgatory() as purgatory:

            async def wait(request: Request):
                await purgatory.wait("paid", timeout=60)

            if framework == "fastapi":
                app = importlib.import_module("fastapi").FastAPI()
                app.get("/wait")(wait)
            else:
                app = Starlette(routes=[Route("/wait", wait)])
            assert await _request_of_a_client_that_hangs_up(app)

    asyncio.run(main())


def test_aiohttp_cancels_no_handler_of_a_client_that_hangs_up():
    """docs/howto/web-timeouts.md: unless it is told to, with `handler_cancellation`."""
    web = pytest.importorskip("aiohttp.web")
    assert inspect.signature(web.run_app).parameters["handler_cancellation"].default is False
