"""`purgatory store status`."""

import json

import pytest

from purgatory.cli import entry_point as cli


def test_an_active_server(table, active, capsys):
    """Who is active, what stands by, and whether the database has a standby of its own."""
    table.open_row("b", "tcp://b:7411").look(register=True)
    table.commit(1)
    table.write(last_commit_s=2.0)
    assert cli.main(["store", "status"]) == 0
    text = capsys.readouterr().out
    for words in ("joe@db1:5432,db2", "tcp://a:7411", "tcp://b:7411", "2.0 s ago", "no: what was"):
        assert words in text
    assert "secret" not in text
    assert "no sign of life" not in text


def test_as_json(table, active, capsys):
    """One line."""
    table.write(replicated=True, drift_ms=-5)
    assert cli.main(["store", "status", "--json", "--partition", "orders"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["active"], found["is_alive"], found["epoch"]) == ("tcp://a:7411", True, 1)
    assert (found["replicated"], found["clock_drift_ms"]) == (True, -5)
    assert (found["standbys"], found["last_commit_s"], found["partition"]) == ([], None, "orders")


@pytest.mark.parametrize("holder", ["", "dead"])
def test_no_server_that_lives(table, capsys, holder, monkeypatch):
    """The exit code is 1; a server that was killed is said to give no sign of life."""
    monkeypatch.setenv("PURGATORY_TAKEOVER_AFTER", "0.5")
    table.write(holder=holder, address="tcp://a:7411", handover=bool(holder))
    assert cli.main(["store", "status"]) == 1
    text = capsys.readouterr().out
    assert ("no sign of life, about to hand over" in text) == bool(holder)
    assert ("none" in text) or holder
