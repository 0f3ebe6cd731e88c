"""The console of commands."""

import io
import re
from pathlib import Path

import pytest

import purgatory
from purgatory.cli import screen
from purgatory.console import OutputConsole


class ClosedPipe(io.StringIO):
    """An output whose reader has gone."""

    def write(self, _text):
        raise BrokenPipeError

    def flush(self):
        raise BrokenPipeError


def test_a_closed_pipe_is_the_callers():
    """rich alone would exit with 1."""
    with pytest.raises(BrokenPipeError):
        OutputConsole(file=ClosedPipe()).print("text")


@pytest.mark.parametrize(
    "show",
    [
        lambda: screen.print_facts([[("name", "value")]]),
        lambda: screen.print_table(["head"], [["cell"]]),
        lambda: screen.print_table(["head"], [["cell"]], folds=False),
    ],
)
def test_tables_leave_a_closed_pipe_to_the_command_line(monkeypatch, show):
    """The exit code is then that of a closed pipe, as of other output."""
    monkeypatch.setattr("sys.stdout", ClosedPipe())
    with pytest.raises(BrokenPipeError):
        show()


def test_no_module_makes_a_console_of_rich():
    """A console that exits by itself would lose what a command has still to write."""
    root = Path(purgatory.__file__).parent
    made = re.compile(r"\bConsole\(")
    found = [path.name for path in root.rglob("*.py") if made.search(path.read_text("utf-8"))]
    assert found == []
