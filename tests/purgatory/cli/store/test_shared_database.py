"""How the commands find the database, and what they show of its URL."""

import json

import pytest

from purgatory.cli import entry_point as cli
from purgatory.cli.store.shared_database import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/purgatory", "postgresql://db/purgatory"),
        ("postgresql://joe:secret@a:1,b:2/x", "postgresql://joe@a:1,b:2/x"),
        ("postgresql://joe:sec?ret@a/x", "postgresql://joe@a/x"),
        ("postgresql:///x?host=a&password=secret&port=1", "postgresql:///x?host=a&port=1"),
        ("postgresql:///x?host=a&sslpassword=secret", "postgresql:///x?host=a"),
        ("postgresql:///x?password=secret&sslpassword=secret&port=1", "postgresql:///x?port=1"),
    ],
)
def test_no_password_is_shown(url, shown):
    """Neither that of the user's part nor that of the parameters."""
    assert without_password(url) == shown


def test_the_settings_name_it(table, tmp_path):
    """The environment, the file and the flags, in rising order."""
    file = tmp_path / "purgatory.toml"
    file.write_text('partition = "orders"\n')
    cli.main(["store", "status", "--config", str(file)])
    cli.main(["store", "status", "--store", "postgresql://x/y", "--partition", "z"])
    assert [url for url, _ in table.opened][1] == "postgresql://x/y"
    assert [partition for _, partition in table.opened] == ["orders", "z"]


def test_without_a_store(capsys, monkeypatch):
    """The error says what is missing."""
    monkeypatch.delenv("PURGATORY_STORE", raising=False)
    assert cli.main(["store", "status"]) == cli.FAILED
    assert "expected --store postgresql://" in capsys.readouterr().err


def test_a_database_that_is_away(table, capsys):
    """It is one line, and the exit code is 2."""
    table.away = True
    assert cli.main(["store", "status"]) == cli.FAILED
    assert capsys.readouterr().err == "purgatory: the database does not answer\n"


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


def test_a_handover(table, active, capsys):
    """The command says which server is active now."""
    table.open_row("b", "tcp://b:7411").look(register=True)
    assert cli.main(["store", "handover"]) == 0
    assert capsys.readouterr().out.startswith("tcp://b:7411 is active, with epoch 2, after ")


def test_without_a_standby(table, active, capsys):
    """It is refused, with exit code 1, and the active server stays."""
    assert cli.main(["store", "handover"]) == 1
    assert capsys.readouterr().out == "no server stands by: tcp://a:7411 stays active\n"
    assert (table.row.holder, table.row.handover) == ("a", False)


def test_nobody_takes_over(table, capsys):
    """The command waits no longer than it was told."""
    table.write(holder="a", address="tcp://a:7411")
    table.open_row("b", "tcp://b:7411").look(register=True)
    assert cli.main(["store", "handover", "--timeout", "0.2"]) == 1
    assert "within 0.2 s" in capsys.readouterr().out
