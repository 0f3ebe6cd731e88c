"""`purgatory list`: the operations of a server, in a table or as JSON."""

import json

import pytest

from purgatory.service import Config
from purgatory.service.daemon import ServiceDaemon

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture
def shop(monkeypatch, run):
    """Operations of the client "shop" at a server in memory, the default of all commands."""
    config = Config(memory=True, bind="tcp://127.0.0.1:0", http_bind="")
    with ServiceDaemon(config) as service:
        monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)
        monkeypatch.setenv("PURGATORY_NAME", "shop")
        monkeypatch.setenv("COLUMNS", "160")
        for op_id, kind in (("a", "order"), ("b", "order"), ("c", "mail")):
            run("defer", op_id, "--id", op_id, "--kind", kind, "--payload", "7", "--in", "1h")
        run("complete", "b", "--value", '{"sum": 12}')
        yield run


def test_a_table(shop):
    """In order of submission: what waits with its payload, what has ended with its result."""
    code, out, err = shop("list")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert [row[:4] for row in rows if row[3:4] == ["shop"]] == [
        ["a", "pending", "order", "shop"],
        ["b", "completed", "order", "shop"],
        ["c", "pending", "mail", "shop"],
    ]
    assert '{"sum": 12}' in out
    assert out.endswith("3 operations\n")


def test_filters(shop):
    """By kind, key, client and state; the limit is said to have been reached."""
    for options, found in (
        (["--kind", "order"], ["a", "b"]),
        (["--state", "pending"], ["a", "c"]),
        (["--waits-for", "c"], ["c"]),
        (["--client", "other"], []),
        (["--kind", "order", "--limit", "1"], ["a"]),
    ):
        code, out, _ = shop("list", "--json", *options)
        assert (code, [json.loads(line)["op_id"] for line in out.splitlines()]) == (0, found)
    assert shop("list", "--limit", "2")[1].endswith("2 operations; there may be more: --limit\n")
    assert shop("list", "--client", "other")[1] == "0 operations\n"


def test_wrong_options(shop):
    """One line says what was expected."""
    code, _, err = shop("list", "--limit", "0")
    assert code == 2
    assert "limit is 0; expected at least 1" in err
    code, _, err = shop("list", "--state", "unknown")
    assert code == 2
    assert "invalid choice" in err
