"""`purgatory store`: its commands are there."""

import pytest

from purgatory.cli import entry_point as cli


@pytest.mark.parametrize("command", ["status", "handover"])
def test_help(capsys, command):
    """Each says what it does, and its exit codes."""
    assert cli.main(["store", command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "exit codes" in text
    assert "--partition" in text
