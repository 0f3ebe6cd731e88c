"""The line of a long command."""

import io
import threading

import pytest

from purgatory.cli.progress import bytes_below, erase_progress, progress_shown
from tests.testing.purgatory_harness import HANG

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


def teller(*texts, last):
    """Return what tells the texts and then `last`, and an event that is set with the first last."""
    left, asked = iter(texts), threading.Event()

    def text():
        try:
            return next(left)
        except StopIteration:
            asked.set()
            return last

    return text, asked


def test_a_terminal_gets_a_line():
    """It is rewritten while the block runs, and erased at its end."""
    terminal = Terminal()
    text, asked = teller("1 of 2", "2 of\x072", last="done")
    with progress_shown(text, terminal, every_s=0.001):
        assert asked.wait(HANG)
    shown = terminal.getvalue()
    assert shown.startswith("\r\x1b[K1 of 2\r\x1b[K2 of")
    assert shown.endswith("\r\x1b[K")
    assert "\x07" not in shown


def test_a_short_command_shows_nothing():
    """Nor does one whose output is no terminal; the text is not asked for."""
    for stream in (Terminal(), io.StringIO()):
        with progress_shown(lambda: 1 / 0, stream, every_s=HANG):
            pass
        assert stream.getvalue() == ""


def test_nothing_to_tell():
    """A line is erased when its command has nothing to tell any more, and once."""
    terminal = Terminal()
    text, asked = teller("", "half", "", "", last="")
    with progress_shown(text, terminal, every_s=0.001):
        assert asked.wait(HANG)
    assert terminal.getvalue() == "\r\x1b[Khalf\r\x1b[K"


def test_other_output():
    """The line is erased before; nothing is written where there is none."""
    terminal, file = Terminal(), io.StringIO()
    erase_progress(terminal)
    erase_progress(file)
    assert (terminal.getvalue(), file.getvalue()) == ("\r\x1b[K", "")


def test_an_error_passes():
    """The line is erased then, too."""
    terminal, asked = Terminal(), threading.Event()

    def text():
        asked.set()
        return "half"

    def fail():
        with progress_shown(text, terminal, every_s=0.001):
            assert asked.wait(HANG)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_bytes(tmp_path):
    """Those of files and directories; what is not there has none."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"123")
    (tmp_path / "d").write_bytes(b"45")
    assert bytes_below(tmp_path / "a", tmp_path / "d", tmp_path / "none") == 5
