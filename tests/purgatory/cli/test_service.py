"""The service's commands: keys, serve's surroundings, and a server seen from the terminal."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import pyarrow.dataset
import pytest

from purgatory.cli.top_screen import Top, blocks, bytes_shown
from purgatory.service import Client, Config
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.systemd import notify
from tests.testing.purgatory_harness import HANG, free_port
from tests.testing.server_processes import ServerProcess

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def run(run, monkeypatch):
    """The same on a terminal wide enough for the tables."""
    monkeypatch.setenv("COLUMNS", "100")
    return run


@pytest.fixture
def service(tmp_path):
    """A service on free ports, with its data on disk."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with ServiceDaemon(config) as service:
        yield service


@pytest.fixture
def at(service, monkeypatch):
    """The commands find this service by themselves."""
    monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)


class TestTerminal:
    def test_a_life(self, run, at, service):
        """Deferred, asked for, completed: each command says what it did."""
        assert run("defer", "paid", "packed", "--need", 2, "--in", 60, "--id", "o1",
                   "--kind", "order") == (0, "o1\n", "")  # fmt: skip
        assert run("complete", "paid", "--value", '{"sum": 12}') == (
            1,
            "0 operations completed\n",
            "",
        )
        code, out, _ = run("query", "o1")
        assert code == 0
        for words in ("o1", "pending", "order", "cli", "paid (done), packed", "2 of 2"):
            assert words in out
        assert run("complete", "packed", "other") == (0, "1 operations completed\n", "")
        code, out, _ = run("query", "o1", "--json")
        state = json.loads(out)
        assert (state["state"], state["by_key"]) == ("completed", "packed")
        assert service.server.stats().completed == 1

    def test_wait(self, run, at, service):
        """The value is printed; one that expires is bad news."""
        with Client(service.server.address) as client:
            completer = threading.Timer(0, self.complete, [client])
            completer.start()
            assert run("defer", "k", "--wait", "--in", HANG) == (0, '{"sum": 12}\n', "")
            completer.join()
        code, out, err = run("defer", "k", "--wait", "--in", 0.01)
        assert (code, err) == (1, "")
        assert "not completed within 10 ms" in out

    @staticmethod
    def complete(client):
        """As soon as somebody waits."""
        while not client.complete("k", {"sum": 12}):
            pass

    def test_cancel(self, run, at):
        """Once; then it is not there to be cancelled."""
        run("defer", "k", "--id", "x")
        assert run("cancel", "x")[:2] == (0, "1 operations cancelled\n")
        assert run("cancel", "x")[:2] == (1, "0 operations cancelled\n")

    def test_unknown(self, run, at):
        """Asked for what is not there: bad news, and said so."""
        code, out, _ = run("query", "nope")
        assert code == 1
        assert "unknown" in out

    def test_texts_are_not_markup(self, run, at):
        """A key may look like markup of the terminal's library."""
        run("defer", "[red]k[/red]", "--id", "[bold]")
        _, out, _ = run("query", "[bold]")
        assert "[red]k[/red]" in out
        assert "[bold]" in out

    def test_stats(self, run, at, service):
        """The server's figures, for people and for programs."""
        run("defer", "k", "--in", 60)
        assert "unacknowledged" in run("stats")[1]
        figures = json.loads(run("stats", "--json")[1])
        assert figures["pending"] == 1
        assert figures.keys() == service.server.stats().as_dict().keys()

    def test_top(self, run, at):
        """Looks as often as it is told to; without a terminal it prints."""
        run("defer", "k", "--in", 60)
        code, out, err = run("top", "--count", 2, "--interval", 0.01)
        assert (code, err) == (0, "")
        assert "pending" in out
        assert "expired/s" in out

    @pytest.mark.parametrize(
        ("argv", "told"),
        [
            (["defer", "k", "--in", "-1"], "delay is -1.0"),
            (["defer", "k", "--in", "nan"], "delay is nan"),
            (["defer", "k", "--need", "2"], "need is 2"),
            (["defer", "k", "--in", "1e12"], "timeout_ms is"),
            (["stats", "--patience", "0"], "--patience 0"),
            (["stats", "--patience", "x"], "--patience x"),
            (["stats", "--key", "f"], "come together"),
            (["stats", "--key", "nowhere", "--server-key", "x"], "nowhere: No such file"),
            (["top", "--interval", "0"], "--interval 0"),
        ],
    )
    def test_mistakes(self, run, at, argv, told):
        """A line that says what was expected, and exit code 2."""
        code, out, err = run(*argv)
        assert (code, out) == (2, "")
        assert told in err
        assert err.count("\n") == 1
        assert "unexpected" not in err

    def test_nobody_there(self, run):
        """The address is named, after no longer than asked for."""
        address = f"tcp://127.0.0.1:{free_port()}"
        code, _, err = run("stats", "--address", address, "--patience", 0.2)
        assert code == 2
        assert address in err


class TestTop:
    FIGURES = dict.fromkeys(
        ("pending", "unacknowledged", "connections", "messages", "submitted", "completed",
         "expired", "cancelled", "refused", "commits", "commit_seconds", "commit_failures",
         "store_backlog", "store_bytes", "uptime_seconds"), 0.0)  # fmt: skip

    def test_rates(self):
        """What was counted since the last look, by the seconds between; never below nothing."""
        top = Top("tcp://x")
        top.add(self.FIGURES | {"uptime_seconds": 10, "expired": 5})
        top.add(self.FIGURES | {"uptime_seconds": 12, "expired": 45})
        assert top._rates["expired"][-1] == 20
        top.add(self.FIGURES | {"uptime_seconds": 1, "expired": 1})  # started again
        top.add(self.FIGURES | {"uptime_seconds": 2, "expired": 1})
        assert top._rates["expired"][-1] == 0
        assert list(top._rates["expired"])[-3:] == [0, 20, 0]

    def test_blocks(self):
        """The highest value is full, the lowest not nothing."""
        assert blocks([0, 1, 4, 8]) == "▁▁▄█"
        assert blocks([0, 0]) == "▁▁"
        assert blocks([]) == ""

    @pytest.mark.parametrize(
        ("count", "shown"),
        [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (300 * 2**20, "300 MiB"),
         (2**60, "1048576 TiB")],
    )  # fmt: skip
    def test_bytes(self, count, shown):
        """As a person would say it."""
        assert bytes_shown(count) == shown


class TestKeys:
    def test_a_life(self, run, tmp_path):
        """Made, let in, listed, revoked; the second time is told apart from the first."""
        where = ["--data-dir", tmp_path]
        code, out, _ = run("keys", "new", "server", *where)
        assert code == 0
        public = KeyStore(tmp_path / "keys").pair("server").public.decode()
        assert f"server.key: {public}" in out
        run("keys", "new", "shop", *where)
        assert run("keys", "allow", "shop", *where)[:2] == (0, "shop is let in\n")
        assert run("keys", "allow", "shop", *where)[:2] == (0, "shop was let in already\n")
        code, out, _ = run("keys", "list", *where)
        assert "server, shop" in out
        assert out.splitlines()[-1].endswith("  shop")
        assert run("keys", "revoke", "shop", *where)[0] == 0
        assert run("keys", "revoke", "shop", *where)[0] == 1
        assert "let in: none" in run("keys", "list", *where)[1]

    def test_a_key_of_elsewhere(self, run, tmp_path):
        """Given itself, or as a file."""
        other = KeyStore(tmp_path / "other")
        public = other.new("till").public.decode()
        here = ["--keys-dir", tmp_path / "here"]
        assert run("keys", "allow", "till", public, *here)[0] == 0
        path = tmp_path / "other" / "till.key"
        assert run("keys", "allow", "till", path, *here)[1] == "till was let in already\n"

    @pytest.mark.parametrize(
        ("argv", "told"),
        [
            (["new", "a/b"], "is no name"),
            (["allow", "x"], "x.key: not found"),
            (["allow", "x", "y"], "y: not found"),
        ],
    )
    def test_mistakes(self, run, tmp_path, argv, told):
        """A line, and exit code 2."""
        code, _, err = run("keys", *argv, "--keys-dir", tmp_path)
        assert code == 2
        assert told in err
        assert err.count("\n") == 1


class TestService:
    def test_page_and_metrics(self, service):
        """The page's figures are the server's; both kinds of metrics are there."""
        with Client(service.server.address) as client:
            client.defer("k", timeout=60)
            client.flush()
            state = json.loads(read(service.url + "state.json"))
            assert (state["name"], state["pending"]) == ("service", 1)
            assert state["service"]["connections"] == 1
            assert abs(state["now_ms"] - service.server.now_ms()) < 60_000
        text = read(service.url + "metrics")
        assert 'purgatory_operations_pending{name="service"} 1.0' in text
        assert "purgatory_server_submitted_total 1.0" in text
        assert read(service.url + "readyz") == "ok\n"

    def test_the_journal_is_complete_in_the_end(self, tmp_path):
        """Over several lives each operation and each outcome is there once."""
        config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="")
        for life in range(3):
            with ServiceDaemon(config) as service, Client(service.server.address) as client:
                futures = [client.defer(f"{life}-{n}", timeout=HANG) for n in range(20)]
                assert service.url == ""
                for n in range(life, 20):
                    client.complete(f"{life}-{n}")
                for future in futures[life:]:
                    future.result(HANG)
        assert len(ids(config, "operations")) == 60
        assert len(set(ids(config, "operations"))) == 60
        assert len(set(ids(config, "outcomes"))) == len(ids(config, "outcomes")) == 57

    def test_nothing_on_disk(self, tmp_path):
        """With ``memory`` there is no journal either."""
        config = Config(data_dir=tmp_path / "x", memory=True, bind="tcp://127.0.0.1:0",
                        http_bind="")  # fmt: skip
        with ServiceDaemon(config) as service, Client(service.server.address) as client:
            client.defer("k").cancel()
        assert not (tmp_path / "x").exists()

    def test_a_start_that_fails_leaves_nothing(self, tmp_path):
        """Neither threads nor locks: the next one starts."""
        before = set(threading.enumerate())
        config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for options in (
                {"http_bind": f"127.0.0.1:{port}"},
                {"bind": f"tcp://127.0.0.1:{port}"},
            ):
                broken = Config(data_dir=tmp_path, **{"bind": "tcp://127.0.0.1:0"} | options)
                with pytest.raises(Exception, match="in use"):
                    ServiceDaemon(broken).start()
                assert set(threading.enumerate()) <= before
        ServiceDaemon(config).close()
        with ServiceDaemon(config):
            pass
        assert set(threading.enumerate()) <= before


def read(url):
    """The body of an answer."""
    with urllib.request.urlopen(url, timeout=HANG) as answer:
        return answer.read().decode()


def ids(config, table):
    """The operations that a table of the journal names."""
    found = pyarrow.dataset.dataset(
        config.journal_dir / table, format="parquet", partitioning="hive"
    )
    return found.to_table().column("op_id").to_pylist()


class TestServe:
    def test_with_keys(self, tmp_path, run):
        """Bound to all addresses, for who is on the list; SIGHUP lets another one in."""
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

            assert run("defer", "k", *key("shop"), "--patience", HANG)[0] == 0
            assert run("stats", *key("till"), "--patience", 0.3)[0] == 2
            assert run("stats", "--address", server.address, "--patience", 0.3)[0] == 2
            keys.allow("till", keys.pair("till").public)
            server.process.send_signal(signal.SIGHUP)
            assert eventually(lambda: run("stats", *key("till"), "--patience", 2)[0] == 0)
            code, errors = server.end()
        assert code == 0
        assert keys.pair("till").public.decode() in errors

    def test_refuses_to_be_open(self, tmp_path):
        """Without keys nobody but this machine is served, unless it is insisted on."""
        command = [sys.executable, "-m", "purgatory", "serve", "--data-dir", str(tmp_path)]
        command += ["--http-bind", "", "--bind", f"tcp://0.0.0.0:{free_port()}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
        assert done.returncode == 2
        assert "keys new server" in done.stderr
        server = ServerProcess(tmp_path, "--insecure")
        server._command[server._command.index("--bind") + 1] = command[-1]
        with server:
            assert server.end()[0] == 0

    def test_systemd_is_told(self, tmp_path):
        """When it serves, and when it ends."""
        path = str(tmp_path / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(HANG)
            with ServerProcess(tmp_path / "data", env={"NOTIFY_SOCKET": path}) as server:
                assert manager.recv(100) == b"READY=1"
                assert server.end()[0] == 0
            assert manager.recv(100) == b"STOPPING=1"


def eventually(check):
    """Whether something comes to be so."""
    tries = 0
    while not check():
        tries += 1
        if tries == 10:
            return False
    return True


class TestNotify:
    def test_nobody_listens(self, monkeypatch, tmp_path):
        """Without a manager, or with one that has gone, nothing happens."""
        monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
        notify("READY=1")
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
        notify("READY=1")

    def test_an_abstract_socket(self, monkeypatch):
        """As systemd names it, with an @."""
        name = f"purgatory-test-{os.getpid()}"
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(f"\0{name}")
            manager.settimeout(HANG)
            notify("READY=1", "STATUS=well")
            assert manager.recv(100) == b"READY=1\nSTATUS=well"
