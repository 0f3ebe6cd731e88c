"""`purgatory serve` in a process of its own."""

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from purgatory.cli import entry_point as cli
from purgatory.cli import serve
from purgatory.cli.serve import _SignalPipe
from purgatory.service import Client
from purgatory.service.auth.access import Access
from purgatory.service.auth.key_store import KeyStore
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG, free_port
from tests.testing.server_processes import ServerProcess

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path, number):
    """The exit code is 0 and stderr is empty; after a restart the operation still waits."""
    with ServerProcess(tmp_path / "data") as serve, Client(serve.address, timeout=HANG) as client:
        future = client.defer("k", timeout=HANG)
        client.flush()
        assert serve.end(number) == (0, "")
        assert serve.start() == f"serving at {serve.address}, 1 waiting\n"
        assert client.complete("k", 7) == 1
        assert future.result(HANG) == 7
        assert serve.end(number) == (0, "")


def test_two_clients_in_two_processes(tmp_path):
    """One process defers, another completes; the server restarts in between."""
    complete = (
        "import sys\n"
        "from purgatory import Client\n"
        "with Client(sys.argv[1]) as client:\n"
        "    print(client.complete('k', {'from': 'afar'}))\n"
    )
    with ServerProcess(tmp_path / "data") as serve, Client(serve.address, timeout=HANG) as client:
        future = client.defer("k", timeout=HANG)
        client.flush()
        serve.kill()
        serve.start()
        assert serve.run_python(complete, serve.address) == "1\n"
        assert future.result(HANG) == {"from": "afar"}
        assert serve.end() == (0, "")


def test_a_hang_up_does_not_end_it(tmp_path):
    """SIGHUP reloads the list of clients."""
    with ServerProcess(tmp_path / "data", "--memory") as serve:
        serve.process.send_signal(signal.SIGHUP)
        with Client(serve.address, timeout=HANG) as client:
            assert client.stats()["pending"] == 0
        assert serve.end() == (0, "")
        assert not (tmp_path / "data").exists()


def test_a_reader_that_goes_away_does_not_end_it(monkeypatch):
    """A server that stands by for months says that it serves though nobody reads that."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        try:
            serve._announce("standby", {})
            serve._announce("serving", {"pending": 0})
        finally:
            gc.unfreeze()


def test_a_start_that_fails(tmp_path, capsys):
    """The reason is one line, and the exit code is 2."""
    with ServerProcess(tmp_path / "data") as serve:
        for flags, words in (
            (["--max-keys", "none"], "--max-keys is 'none'; expected a whole number"),
            (["--config", str(tmp_path / "none")], "none: No such file or directory"),
            (["--data-dir", str(tmp_path / "data")], "another server has its data there"),
            (["--memory", "--bind", serve.address], f"cannot listen at {serve.address}"),
            (["--memory", "--bind", "nonsense"], "cannot listen at nonsense"),
        ):
            assert cli.main(["serve", "--http-bind", "", *flags]) == cli.FAILED
            errors = capsys.readouterr().err
            assert words in errors
            assert errors.count("\n") == 1


def test_a_start_shows_how_far_it_is(tmp_path, monkeypatch, capsys):
    """As other long commands do."""
    told = []

    @contextlib.contextmanager
    def shown(text):
        told.append(text())
        yield

    monkeypatch.setattr(serve, "progress_shown", shown)
    (tmp_path / "file").touch()
    assert cli.main(["serve", "--data-dir", str(tmp_path / "file" / "x"), "--http-bind", ""]) == 2
    assert told[0].startswith("opening the database")
    capsys.readouterr()


def test_the_help_is_complete(capsys):
    """It has every setting with its default."""
    assert cli.main(["serve", "--help"]) == 0
    words = capsys.readouterr().out
    for flag in ("--bind", "--data-dir", "--memory", "--insecure", "--max-pending-per-client"):
        assert flag in words
    assert "tcp://127.0.0.1:7411" in words


def test_with_keys(tmp_path, run):
    """A server on all addresses lets in the listed clients; SIGHUP reloads the list."""
    keys = KeyStore(tmp_path / "keys")
    for name in ("server", "shop", "till"):
        keys.new(name)
    keys.allow("shop", keys.pair("shop").public)
    server = ServerProcess(tmp_path)
    port = server.address.rpartition(":")[2]
    server._command[server._command.index("--bind") + 1] = f"tcp://0.0.0.0:{port}"
    with server:
        options = ["--server-key", keys.directory / "server.key", "--address", server.address]

        def key(name):
            return [*options, "--key", keys.directory / f"{name}.key_secret"]

        def is_refused():
            """The patience may be over before the server has looked at the key, and says so."""
            assert run("stats", *key("till"), "--patience", 0.3)[0] == 2
            return select.select([server.process.stderr], [], [], 0)[0]

        assert run("defer", "k", "--id", "o", *key("shop"), "--patience", HANG)[0] == 0
        assert '"client": "shop"' in run("query", "o", "--json", *key("shop"))[1]
        eventually(is_refused)
        assert run("stats", "--address", server.address, "--patience", 0.3)[0] == 2
        keys.allow("till", keys.pair("till").public)
        server.process.send_signal(signal.SIGHUP)
        eventually(lambda: run("stats", *key("till"), "--patience", 2)[0] == 0)
        keys.allow("till", keys.pair("till").public, Access("till", ["till"], ["read"]))
        server.process.send_signal(signal.SIGHUP)
        told = "complete needs the right 'complete'; this key has read"
        eventually(lambda: told in run("complete", "k", *key("till"))[2])
        assert run("stats", *key("till"))[0] == 0
        assert "not for this key; expected 'till'" in run("stats", *key("till"), "--name", "x")[2]
        code, errors = server.end()
    assert code == 0
    assert keys.pair("till").public.decode() in errors


def test_without_keys_an_open_bind_is_refused(tmp_path):
    """Without keys a server binds to loopback only, unless `--insecure` is given."""
    command = [sys.executable, "-m", "purgatory", "serve", "--data-dir", str(tmp_path)]
    command += ["--http-bind", "", "--bind", f"tcp://0.0.0.0:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 2
    assert "keys new server" in done.stderr
    server = ServerProcess(tmp_path, "--insecure")
    server._command[server._command.index("--bind") + 1] = command[-1]
    with server:
        assert server.end()[0] == 0


def test_a_signal_that_another_thread_receives():
    """It wakes the main thread, whose system call it does not end."""
    system_call = Path(f"/proc/self/task/{threading.main_thread().native_id}/syscall")

    def send():
        # Until the main thread reads the pipe: read(2) is number 0 on x86-64, 63 on arm64.
        while not system_call.read_text(encoding="ascii").startswith(("0 ", "63 ")):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)

    with _SignalPipe() as signals:
        thread = threading.Thread(target=send)
        thread.start()
        assert signals.wait() == signal.SIGHUP
        thread.join(HANG)


def test_systemd_is_notified(tmp_path, service_manager):
    """When the server is ready, and when it ends."""
    with ServerProcess(tmp_path / "data") as server:
        assert service_manager.recv(100) == b"READY=1"
        assert server.end()[0] == 0
    assert service_manager.recv(100) == b"STOPPING=1"
