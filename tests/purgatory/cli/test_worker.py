"""`purgatory worker`: it runs jobs until a signal."""

import errno
import io
import json
import os
import signal
import subprocess
import sys

import pytest

from purgatory.cli.entry_point import main
from purgatory.cli.worker import _Progress
from purgatory.service import Client, Config, Worker
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")

PROGRAM = """
import sys
from purgatory import Worker

worker = Worker({address!r}, name="jobs")

@worker.on("mail")
def send(job):
    print(job.payload, flush=True)
"""


@pytest.fixture
def server(monkeypatch):
    """A server in memory; the default of all commands."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service:
        monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)
        monkeypatch.setenv("PURGATORY_NAME", "jobs")
        monkeypatch.setenv("COLUMNS", "160")
        yield service.server


@pytest.fixture
def client(server):
    with Client(server.address, name="jobs", timeout=HANG) as client:
        yield client


@pytest.mark.parametrize("where", ["x", "127.0.0.1:", "70000", "-1"])
def test_a_metrics_port_that_is_none(tmp_path, monkeypatch, capsys, where):
    """One line says what is expected."""
    (tmp_path / "metered.py").write_text(PROGRAM.format(address="tcp://127.0.0.1:1"))
    monkeypatch.chdir(tmp_path)
    assert main(["worker", "metered:worker", f"--metrics-port={where}"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "expected" in line


def test_a_drain_below_0_is_refused_at_the_start(tmp_path, monkeypatch, capsys):
    """At the end it would keep the worker from giving its jobs back."""
    (tmp_path / "drained.py").write_text(PROGRAM.format(address="tcp://127.0.0.1:1"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Worker, "start", lambda _: pytest.fail("it was started"))
    assert main(["worker", "drained:worker", "--drain=-5"]) == 2
    assert "--drain is -5.0; expected 0 or more seconds" in capsys.readouterr().err


def test_a_worker(tmp_path, server, client):
    """It runs jobs until a signal, and then says how many."""
    (tmp_path / "reminders.py").write_text(PROGRAM.format(address=server.address), encoding="utf-8")
    client.schedule(0.01, kind="mail", payload="hello")
    process = subprocess.Popen(
        [sys.executable, "-m", "purgatory", "worker", "reminders:worker", "--drain", "10"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "hello\n"
    while client.stats()["unacknowledged"]:
        pass
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=HANG)
    assert process.returncode == 0
    assert "INFO purgatory.cli.worker: jobs: 0 running, 1 done (" in errors


class GoneTerminal(io.StringIO):
    """A terminal that was closed while a program goes on, as after `disown`."""

    def isatty(self):
        return True

    def write(self, text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("stderr", [GoneTerminal(), None])
def test_a_terminal_that_goes_away_ends_no_worker(monkeypatch, caplog, stderr):
    """Its line goes to the log from then on. Likewise without stderr."""
    monkeypatch.setattr(sys, "stderr", stderr)
    progress = _Progress(Worker("tcp://127.0.0.1:1", name="jobs"))
    progress.end()
    progress.end()
    assert "jobs: 0 running" in caplog.text


def test_the_log_of_a_worker(tmp_path, server, client):
    """With `--log-format json` each line is an object; `--verbose` shows the handlers' own."""
    program = PROGRAM.replace("print(job.payload, flush=True)", "logging.info(job.payload)")
    program = f"import logging\n{program.format(address=server.address)}"
    (tmp_path / "talking.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "purgatory", "worker", "talking:worker", "--verbose"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PURGATORY_LOG_FORMAT": "json"},
        stderr=subprocess.PIPE,
        text=True,
    )
    client.schedule(0, kind="mail", payload="hello").result(HANG)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=HANG)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert (lines[0]["logger"], lines[0]["message"]) == ("root", "hello")
    assert "jobs: 0 running, 1 done (" in lines[-1]["message"]


def test_a_format_of_logs_that_is_none(monkeypatch, capsys):
    """Likewise in the environment: the message names the value."""
    monkeypatch.setenv("PURGATORY_LOG_FORMAT", "xml")
    assert main(["worker", "talking:worker"]) == 2
    assert "'xml'; expected text or json" in capsys.readouterr().err


def test_systemd_is_notified(tmp_path, server, service_manager):
    """When the worker is ready, and when it ends: the unit of the server is for workers, too."""
    (tmp_path / "notifying.py").write_text(PROGRAM.format(address=server.address), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "purgatory", "worker", "notifying:worker"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.DEVNULL,
    )
    assert service_manager.recv(100) == b"READY=1"
    process.send_signal(signal.SIGTERM)
    assert service_manager.recv(100) == b"STOPPING=1"
    assert process.wait(HANG) == 0


STUCK = """
import threading
from purgatory import Worker

worker = Worker({address!r}, name="jobs", concurrency=1, max_attempts=1)

@worker.on("mail", timeout=0.1)
def send(job):
    threading.Event().wait()
"""


def test_a_worker_whose_handlers_hang(tmp_path, server, client):
    """It ends with exit code 1, for its supervisor, and a line that says why."""
    (tmp_path / "stuck.py").write_text(STUCK.format(address=server.address), encoding="utf-8")
    for _ in range(3):
        client.schedule(0, kind="mail")
    process = subprocess.run(
        [sys.executable, "-m", "purgatory", "worker", "stuck:worker"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith(
        "purgatory: worker 'jobs': 2 handlers of kind 'mail' run longer than their time limit"
    )
    assert len(client.jobs_page(state="dead").jobs) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("reminders", "expected MODULE:NAME"),
        ("no_such_module:worker", "there is no module no_such_module"),
        ("json:worker", "json has no purgatory.Worker named worker"),
        ("json:dumps", "json has no purgatory.Worker named dumps"),
    ],
)
def test_what_is_no_worker(run, name, words):
    """The error says why."""
    code, _, err = run("worker", name)
    assert code == 2
    assert words in err


def test_a_program_that_fails(run, tmp_path, monkeypatch):
    """Its own error is told as such, not as one of the command."""
    (tmp_path / "failing_jobs.py").write_text("worker = 1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = run("worker", "failing_jobs:worker")
    assert code == 2
    assert err == "purgatory: worker failing_jobs:worker: ZeroDivisionError: division by zero\n"


def test_a_worker_with_a_bad_address(run, tmp_path, monkeypatch):
    """The error of its constructor is shown."""
    text = "from purgatory.service import Worker\nworker = Worker('tcp://no address', name='j')\n"
    (tmp_path / "misplaced_jobs.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    code, _, err = run("worker", "misplaced_jobs:worker")
    assert code == 2
    assert "tcp://no address" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.exit(0)", "ends the program with exit code 0"),
        ("raise SystemExit", "ends the program with exit code None"),
        ("from purgatory import Worker\nworker = Worker(name='jobs')", "the worker has no handler"),
        ("from purgatory import Worker\nworker = Worker('nowhere', name='jobs')", "nowhere"),
        ("from purgatory import Worker\nworker = Worker(name='jobs', nothing=5)", "nothing"),
        ("from purgatory import Worker\nworker = Worker(name='jobs', timeout=-1)", "-1"),
    ],
)
def test_a_program_of_mistakes(run, tmp_path, monkeypatch, text, words):
    """One line says which, also for a module that ends the program as if all were well."""
    if "Worker(" in text and "no handler" not in words:
        text += "\nworker.on('mail')(print)"
    (tmp_path / "mistaken_jobs.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mistaken_jobs", raising=False)
    code, _, err = run("worker", "mistaken_jobs:worker")
    assert code == 2
    assert err.splitlines()[-1].startswith("purgatory: worker mistaken_jobs:worker: ")
    assert words in err
    assert "report" not in err
