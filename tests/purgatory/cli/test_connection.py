"""The commands that talk to a server: defer, complete, fail, extend, cancel, query, stats, top."""

import json
import threading

import pytest

from purgatory.cli.connection import person
from purgatory.service import Client, Config
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG, free_port

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def run(run, monkeypatch):
    """Run a command with a terminal wide enough for the tables."""
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
    """Make the service the default of all commands."""
    monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)


def complete_when_waiting(client):
    """Complete the key as soon as an operation waits for it."""
    while not client.complete("k", {"sum": 12}):
        pass


def test_an_operation_from_defer_to_query(run, at, service):
    """Each command prints what it did."""
    assert run("defer", "paid", "packed", "--need", 2, "--in", 60, "--id", "o1",
               "--kind", "order", "--payload", '{"order": 1}') == (0, "o1\n", "")  # fmt: skip
    assert run("complete", "paid", "--value", '{"sum": 12}') == (
        1,
        "0 operations completed\n",
        "",
    )
    code, out, _ = run("query", "o1")
    assert code == 0
    for words in ("o1", "pending", "order", person(), "paid (done), packed", "2 of 2"):
        assert words in out
    assert run("complete", "packed", "other", "--value", "box 4")[0] == 0
    code, out, _ = run("query", "o1", "--json")
    state = json.loads(out)
    assert (state["state"], state["by_key"]) == ("completed", "packed")
    assert state["result"] == {"paid": {"sum": 12}, "packed": "box 4"}
    assert state["payload"] == {"order": 1}
    assert "box 4" in run("query", "o1")[1]
    assert service.server.stats().completed == 1


def test_wait(run, at, service):
    """`defer --wait` prints the value; an expiry has exit code 1."""
    with Client(service.server.address) as client:
        completer = threading.Timer(0, complete_when_waiting, [client])
        completer.start()
        assert run("defer", "k", "--wait", "--in", HANG) == (0, '{"sum": 12}\n', "")
        completer.join()
    code, out, err = run("defer", "k", "--wait", "--in", 0.01)
    assert (code, err) == (1, "")
    assert "not completed within 10 ms" in out


def test_cancel(run, at):
    """An operation can be cancelled once; then the exit code is 1."""
    run("defer", "k", "--id", "x")
    assert run("cancel", "x")[:2] == (0, "1 operations cancelled\n")
    assert run("cancel", "x")[:2] == (1, "0 operations cancelled\n")


def test_extend(run, at):
    """An operation is given more time while it waits; bad news for one that has ended."""
    run("defer", "k", "--id", "x", "--in", 60)
    before = json.loads(run("query", "x", "--json")[1])["deadline_ms"]
    assert run("extend", "x", "--in", 600) == (0, "1 operations extended\n", "")
    assert json.loads(run("query", "x", "--json")[1])["deadline_ms"] > before
    assert run("extend", "x", "unknown", "--in", 1)[:2] == (1, "1 operations extended\n")
    code, _, err = run("extend", "x", "--in", -1)
    assert code == 2
    assert "expected" in err


def test_fail(run, at):
    """The error comes to `defer --wait`, with exit code 1."""
    run("defer", "k", "--id", "x", "--in", 60)
    assert run("fail", "k", "--error", "Declined", "--message", "no funds") == (
        0,
        "1 operations failed\n",
        "",
    )
    assert run("defer", "k", "--id", "x", "--wait") == (1, "Declined: no funds\n", "")
    assert "Declined: no funds" in run("query", "x")[1]
    assert "failed" in run("query", "x")[1]
    assert run("fail", "k")[:2] == (1, "0 operations failed\n")


def test_limit_and_hold(run, at):
    """An event that is held is no bad news, though nothing waits for it yet."""
    assert run("complete", "k", "--value", "v", "--limit", 1, "--hold", 60) == (
        0,
        "0 operations completed\n",
        "",
    )
    assert run("defer", "k", "--wait", "--in", 60) == (0, "v\n", "")
    assert run("defer", "k", "--wait", "--in", 0.01)[0] == 1
    for option, value in (("--limit", 0), ("--hold", -1)):
        code, _, err = run("complete", "k", option, value)
        assert code == 2
        assert "expected" in err


def test_unknown(run, at):
    """An operation that the server does not know has exit code 1."""
    code, out, _ = run("query", "nope")
    assert code == 1
    assert "unknown" in out


def test_texts_are_not_markup(run, at):
    """A key is printed as it is, even if it looks like markup of `rich`."""
    run("defer", "[red]k[/red]", "--id", "[bold]")
    _, out, _ = run("query", "[bold]")
    assert "[red]k[/red]" in out
    assert "[bold]" in out


def test_stats(run, at, service):
    """The server's figures, as a table and as JSON."""
    assert json.loads(run("stats", "--json")[1])["next_due_seconds"] == -1
    run("defer", "k", "--in", 60)
    assert 0 < json.loads(run("stats", "--json")[1])["next_due_seconds"] <= 60
    assert "unacknowledged" in run("stats")[1]
    figures = json.loads(run("stats", "--json")[1])
    assert figures["pending"] == 1
    assert figures.keys() == service.server.stats().as_dict().keys()


def test_top(run, at):
    """It refreshes as often as `--count` says; without a terminal it prints."""
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
def test_mistakes(run, at, argv, told):
    """One line says what was expected; the exit code is 2."""
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
    assert "unexpected" not in err


def test_no_server_there(run):
    """The error names the address, after no more than the patience."""
    address = f"tcp://127.0.0.1:{free_port()}"
    code, _, err = run("stats", "--address", address, "--patience", 0.2)
    assert code == 2
    assert address in err
