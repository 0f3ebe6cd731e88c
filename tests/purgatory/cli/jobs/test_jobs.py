"""`purgatory jobs`: the group of its commands."""

import pytest

from purgatory.cli.entry_point import main

COMMANDS = (
    *("list", "show", "schedule", "cancel", "retry", "run"),
    *("reschedule", "drop", "pause", "resume", "limit"),
)


def test_commands(capsys):
    """The help lists them."""
    assert main(["jobs", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n    {name}" in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help(capsys, name):
    """Each says what it does, and how to connect."""
    assert main(["jobs", name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--address" in text
    assert text.count("\n\n") >= 2
