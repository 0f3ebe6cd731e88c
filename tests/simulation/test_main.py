"""The command: many seeds, the history of one, and a failure made smaller."""

import pytest

from tests.simulation import __main__ as command
from tests.simulation.key_effects import KeyEffects


def test_many_seeds(capsys):
    """It says how much was simulated, and what went wrong in it."""
    assert command.main(["--seeds", "3", "--seconds", "10"]) == 0
    told = capsys.readouterr().out
    assert "3 worlds" in told
    assert "simulated hours" in told


def test_as_long_as_told(capsys):
    """Fresh seeds, until the time is over."""
    assert command.main(["--minutes", "0.01", "--fresh", "--seconds", "1"]) == 0
    assert "worlds" in capsys.readouterr().out


def test_the_seed_of_the_commit():
    """Whoever checks the same commit runs the same worlds."""
    assert command.seed_of_commit() == command.seed_of_commit()


def test_no_commit(monkeypatch):
    """Outside a repository each run has worlds of its own."""

    def no_git(*_args, **_kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(command.subprocess, "run", no_git)
    assert command.seed_of_commit() != command.seed_of_commit()


def test_a_history(capsys):
    """Each line has its time."""
    assert command.main(["--history", "--first", "2", "--seconds", "5"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "every promise was kept"
    assert any("submits" in line for line in told)


def test_digests(capsys):
    """A line for each history: the same when it is run again, another for another seed."""
    told = []
    for _ in range(2):
        assert command.main(["--digests", "--seeds", "2", "--seconds", "2"]) == 0
        told.append(capsys.readouterr().out.splitlines())
    assert told[0] == told[1]
    assert [line.split()[0] for line in told[0]] == ["0", "1"]
    assert len({line.split()[1] for line in told[0]}) == 2


@pytest.mark.usefixtures("wrong_oracle")
def test_a_failure(capsys):
    """It is told with its seed, with fewer faults and in a shorter run, and the exit code is 1."""
    assert command.main(["--seeds", "2", "--seconds", "2"]) == 1
    told = capsys.readouterr().out
    assert "seed 0: " in told
    assert "made smaller" in told
    assert "faults: none" in told


@pytest.fixture
def wrong_oracle(monkeypatch):
    """An oracle that holds each completion to be late."""
    monkeypatch.setattr(KeyEffects, "first_ns", lambda *_: 0)
