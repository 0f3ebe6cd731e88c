"""The command's `main`: it heeds SIGTERM before it loads the commands."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from purgatory.cli import main
from tests.testing.purgatory_harness import HANG

FIRST_PROCESS = """
import sys, threading
from purgatory import cli

looks = threading.Event()

class Loading:
    def find_spec(self, name, path, target=None):
        if name == "purgatory.cli.entry_point":
            print("loads", flush=True)
            while True:
                looks.wait(0.01)  # `signal.pause` misses what came just before

sys.meta_path.insert(0, Loading())
cli.main(["gateway"])
"""


def test_sigterm_for_the_first_process_of_a_container():
    """It ends while it still loads: the kernel drops signals that the first process ignores."""
    command = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no rights for a container")
    with subprocess.Popen(
        [*command, sys.executable, "-c", FIRST_PROCESS], stdout=subprocess.PIPE, text=True
    ) as outer:
        assert outer.stdout.readline() == "loads\n"
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text()
        os.kill(int(children), signal.SIGTERM)
        assert outer.wait(HANG) == 128 + signal.SIGTERM


def test_it_runs_a_command(capsys):
    """Its arguments, its output, its exit code."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("purgatory ")
    assert main(["nothing"]) == 2


class _Interrupt:
    """Finds a module as a user presses Ctrl-C."""

    def find_spec(self, name, path, target=None):
        """See `importlib.abc.MetaPathFinder`."""
        if name == "purgatory.cli.entry_point":
            raise KeyboardInterrupt


def test_an_interrupt_while_the_commands_are_imported(monkeypatch, capsys):
    """It is one line and exit code 130, as later."""
    monkeypatch.delitem(sys.modules, "purgatory.cli.entry_point", raising=False)
    monkeypatch.setattr(sys, "meta_path", [_Interrupt(), *sys.meta_path])
    assert main(["--version"]) == 130
    assert capsys.readouterr() == ("", "purgatory: interrupted\n")
