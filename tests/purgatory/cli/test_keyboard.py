"""Keyboard: single keys of a terminal."""

import os
import pty
import termios
import time

import pytest

from purgatory.cli.keyboard import Keyboard
from tests.testing.purgatory_harness import HANG


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


def test_without_a_terminal(tmp_path):
    """There are no keys, and the wait takes its time."""
    with (tmp_path / "file").open("w+") as stream, Keyboard(stream) as keyboard:
        assert not keyboard.is_there
        begun = time.monotonic()
        assert keyboard.wait(0.01) == ""
        assert time.monotonic() >= begun + 0.01
