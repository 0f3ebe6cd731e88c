"""What a command is doing, on a terminal and in a log."""

import io
from io import StringIO

from rich.console import Console

from purgatory.spark.progress import Progress
from purgatory.spark.stream.entry import CheckpointEntry


def test_progress_in_a_log_and_on_a_terminal():
    """A log gets a line for each step and its time; a terminal one line that is rewritten."""
    times = iter((10.0, 10.0, 13.24))
    log = StringIO()
    with Progress("starting Spark", Console(file=log), clock=lambda: next(times)) as progress:
        progress.show("[hot] keys")
    assert log.getvalue() == "  0.0 s  starting Spark\n  3.2 s  [hot] keys\n"
    terminal = StringIO()
    with Progress("starting Spark", Console(file=terminal, force_terminal=True)) as progress:
        progress.show("hot keys")
    assert "hot keys" in terminal.getvalue()
    assert " s  " not in terminal.getvalue()


def test_in_a_terminal_one_line_changes():
    """The line is removed at the end."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=200)
    with Progress("starting", console) as progress:
        progress.show(CheckpointEntry(batch=7, pending=1_234))
    assert "batch 7" in text.getvalue() or "starting" in text.getvalue()


def test_a_step_is_no_markup():
    """A path may have brackets, and characters that would move the cursor."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=200)
    with Progress("starting", console) as progress:
        progress.show("looking at data[/x]\x1b[2J")
    assert "looking at data[/x]\\x1b[2J" in text.getvalue()
