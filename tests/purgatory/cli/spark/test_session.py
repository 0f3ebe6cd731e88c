"""The session of a command, as its options say."""

import argparse
from contextlib import contextmanager

import pytest

from purgatory.cli.spark.session import add_session_options, command_session
from purgatory.spark import session


@pytest.fixture
def opened(monkeypatch):
    """The options of the session that is opened; it is no real one."""
    found = {}

    @contextmanager
    def open_session(**options):
        found.update(options)
        yield "a session"

    monkeypatch.setattr(session, "open_session", open_session)
    return found


def parsed(*argv):
    """Parse the options of a session."""
    parser = argparse.ArgumentParser()
    add_session_options(parser)
    return parser.parse_args(argv)


def test_options_are_the_sessions(opened):
    """Threads and memory, and what the command itself sets."""
    arguments = parsed("--cores", "3", "--memory", "4g")
    with command_session(arguments, {"spark.x": "1"}) as found:
        assert found == "a session"
    assert opened == {"cores": 3, "memory": "4g", "conf": {"spark.x": "1"}}


def test_without_options(opened):
    """The session decides."""
    with command_session(parsed()):
        assert opened == {"cores": None, "memory": None, "conf": None}


@pytest.mark.parametrize("cores", ["0", "-1", "many"])
def test_a_bad_number_of_threads(cores, capsys):
    """It is an error of usage."""
    with pytest.raises(SystemExit):
        parsed("--cores", cores)
    assert "--cores" in capsys.readouterr().err
