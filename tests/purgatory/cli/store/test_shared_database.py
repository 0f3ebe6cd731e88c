"""How the commands find the database, and what they show of its URL."""

import pytest

from purgatory.cli import entry_point as cli
from purgatory.cli.store.shared_database import without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/purgatory", "postgresql://db/purgatory"),
        ("postgresql://joe:secret@a:1,b:2/x", "postgresql://joe@a:1,b:2/x"),
        ("postgresql:///x?host=a&password=secret&port=1", "postgresql:///x?host=a&port=1"),
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
