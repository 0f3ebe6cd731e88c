"""`purgatory spark`: the group of its commands."""

import pytest

COMMANDS = ("resolve", "run", "compact", "report", "package")


def test_the_group_names_its_commands(run):
    """Each with what it is for."""
    code, out, _ = run("spark", "--help")
    assert code == 0
    assert all(f"  {command} " in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(run, command):
    """Nothing of Spark is started for that."""
    code, out, _ = run("spark", command, "--help")
    assert code == 0
    assert f"purgatory spark {command}" in out


def test_an_unknown_command(run):
    """It is an error of usage."""
    code, out, err = run("spark", "fly")
    assert (code, out) == (2, "")
    assert "fly" in err
