"""`purgatory outcomes`: what is kept is seen, and acknowledged."""

import json
import time

import pytest

from purgatory.cli.connection import person
from purgatory.service import Client, Config
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def server(monkeypatch):
    """A server in memory; the default of all commands."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service:
        monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)
        monkeypatch.setenv("COLUMNS", "120")
        yield service.server


@pytest.fixture
def three(run, server):
    """Three outcomes that nothing waits for: completed, failed and expired."""
    for op_id in ("a", "b"):
        run("defer", op_id, "--id", op_id, "--payload", '{"order": 7}', "--in", "1h")
    run("defer", "c", "--id", "c", "--in", "1h")
    run("complete", "a", "--value", '{"sum": 12}')
    run("fail", "b", "--error", "Declined", "--message", "no funds")
    run("extend", "c", "--in", "1ms")
    deadline = time.monotonic() + HANG
    while server.stats().unacknowledged < 3:
        assert time.monotonic() < deadline
    return server


def test_list_takes_nothing_away(run, three):
    """It shows how each ended, as often as it is asked."""
    for _ in range(2):
        code, out, err = run("outcomes", "list")
        assert (code, err) == (0, "")
        for words in ("completed", '{"sum": 12}', "failed", "Declined: no funds", "expired"):
            assert words in out
        assert out.endswith(f"3 unread outcomes of client {person()!r}\n")
    assert three.stats().unacknowledged == 3


def test_show(run, three):
    """It has result and payload; an operation without an unread outcome is bad news."""
    code, out, _ = run("outcomes", "show", "a")
    assert code == 0
    assert '{"sum": 12}' in out
    assert '{"order": 7}' in out
    code, out, err = run("outcomes", "show", "b", "nope", "--json")
    assert (code, json.loads(out)["op_id"]) == (1, "b")
    assert err.startswith("nope: client")
    assert three.stats().unacknowledged == 3


def test_json(run, three):
    """A line for each, with values that JSON readers understand."""
    _, out, _ = run("outcomes", "list", "--json")
    rows = {row["op_id"]: row for row in map(json.loads, out.splitlines())}
    assert rows["a"]["result"] == {"sum": 12}
    assert rows["b"]["result"] == ["Declined", "no funds"]
    assert (rows["c"]["outcome"], rows["c"]["result"], rows["c"]["payload"]) == (
        "expired",
        None,
        None,
    )
    assert json.loads(run("outcomes", "show", "a", "--json")[1]) == rows["a"]


def test_ack(run, three):
    """It takes away what it is told to, once; the others stay."""
    assert run("outcomes", "ack", "a", "c") == (0, "2 outcomes acknowledged\n", "")
    assert three.stats().unacknowledged == 1
    code, out, err = run("outcomes", "ack", "a")
    assert code == 1
    assert (out, err[:9]) == ("0 outcomes acknowledged\n", "a: client")
    assert run("outcomes", "ack", "--all")[:2] == (0, "1 outcome acknowledged\n")
    assert run("outcomes", "ack", "--all")[:2] == (0, "0 outcomes acknowledged\n")
    assert three.stats().unacknowledged == 0


@pytest.mark.parametrize("argv", [["ack"], ["ack", "a", "--all"]])
def test_ack_needs_to_be_told_what(run, server, argv):
    code, _, err = run("outcomes", *argv)
    assert code == 2
    assert "expected one ID or more, or else --all" in err


def test_another_client(run, three):
    """Outcomes of another name are neither shown nor acknowledged."""
    assert run("outcomes", "list", "--name", "shop")[1] == "0 unread outcomes of client 'shop'\n"
    run("outcomes", "ack", "--all", "--name", "shop")
    assert three.stats().unacknowledged == 3


def test_nothing_is_stolen_from_a_client_that_waits(run, server):
    """While a program of the same name is connected, it gets its outcomes as before."""
    found = []
    with Client(server.address, name="shop", on_outcome=found.append) as shop:
        future = shop.defer("k", op_id="a", timeout=HANG)
        shop.flush()
        run("outcomes", "list", "--name", "shop")
        shop.complete("k", 5)
        assert future.result(HANG) == 5


def test_many(run, server):
    """They come in several pages."""
    with Client(server.address, name=person()) as client:
        for n in range(600):
            client.defer("k", op_id=f"o{n}", timeout=HANG)
        client.flush()
    run("complete", "k")
    lines = run("outcomes", "list", "--json")[1].splitlines()
    assert [json.loads(line)["op_id"] for line in lines] == [f"o{n}" for n in range(600)]
    assert run("outcomes", "ack", "--all")[1] == "600 outcomes acknowledged\n"
