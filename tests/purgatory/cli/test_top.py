"""`purgatory stats` and `purgatory top`."""

import json
import os
import pty
import signal
import sys
import termios
import threading
import time

import pytest

from purgatory.cli.top import Keyboard
from purgatory.cli.top_tables import QUIT
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def test_stats(run, at, service):
    """The server's figures, as a table and as JSON."""
    assert json.loads(run("stats", "--json")[1])["next_due_seconds"] == -1
    run("defer", "k", "--in", 60)
    assert 0 < json.loads(run("stats", "--json")[1])["next_due_seconds"] <= 60
    assert "unacknowledged" in run("stats")[1]
    figures = json.loads(run("stats", "--json")[1])
    assert figures["pending"] == 1
    assert figures.keys() == service.server.stats().as_dict().keys()


def test_top(run, at):
    """It refreshes as often as `--count` says; without a terminal it prints each time."""
    run("defer", "k", "--in", 60)
    code, out, err = run("top", "--count", 2, "--interval", 0.01)
    assert (code, err) == (0, "")
    assert out.count("1 pending") == 2
    assert out.count("expired/s") == 2


def test_top_shows_jobs(run, at):
    """Jobs are there by kind and state."""
    run("jobs", "schedule", "--kind", "mail", "--in", "1h")
    out = run("top", "--count", 1)[1]
    assert "scheduled" in out
    assert "mail" in out


def test_ctrl_c_leaves(run, at, monkeypatch):
    """With exit code 0, not 130 as other commands, as the page of the commands says."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Keyboard, "wait", interrupt)
    assert run("top")[0] == 0


@pytest.fixture
def terminal():
    """A terminal: what its user types into, and what the program reads."""
    user, program = pty.openpty()
    stream = os.fdopen(program, "r")
    yield user, stream
    stream.close()
    os.close(user)


def test_keys_of_a_terminal(terminal):
    """They come one by one without Enter; afterwards the terminal is as it was."""
    user, stream = terminal
    before = termios.tcgetattr(stream)
    with Keyboard(stream) as keyboard:
        assert keyboard.is_there
        os.write(user, b"dq")
        assert [keyboard.wait(HANG), keyboard.wait(HANG)] == ["d", "q"]
        assert keyboard.wait(0.001) == ""
    assert termios.tcgetattr(stream) == before


def test_sigterm_leaves_the_terminal_as_it_was(run, at, terminal, monkeypatch):
    """The exit code is a signal's."""
    _, stream = terminal
    monkeypatch.setattr(sys, "stdin", stream)
    before = termios.tcgetattr(stream)
    waits = []

    def wait(_keyboard, seconds):
        waits.append((seconds, termios.tcgetattr(stream) == before))
        signal.raise_signal(signal.SIGTERM)
        return QUIT

    monkeypatch.setattr(Keyboard, "wait", wait)
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit, match="143"):
            run("top", "--interval", "9999999999")
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert termios.tcgetattr(stream) == before
    [(seconds, is_as_before)] = waits
    assert seconds <= threading.TIMEOUT_MAX
    assert not is_as_before


def test_without_a_terminal(tmp_path):
    """There are no keys, and the wait takes its time."""
    with (tmp_path / "file").open("w+") as stream, Keyboard(stream) as keyboard:
        assert not keyboard.is_there
        begun = time.monotonic()
        assert keyboard.wait(0.01) == ""
        assert time.monotonic() >= begun + 0.01
