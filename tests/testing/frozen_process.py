"""Processes that are stopped by SIGSTOP."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.testing.eventually import eventually


def freeze(pid: int) -> None:
    """Stop a process; returns when none of its threads runs.

    The signal stops the thread that gets it, which then stops the others: until it has run, they go
    on and may answer.
    """
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: all(_is_still(path) for path in Path(f"/proc/{pid}/task").glob("*/stat")))


def _is_still(path: Path) -> bool:
    """Whether the thread that a file of /proc tells of has stopped, or ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        state = path.read_text().rpartition(")")[2].split()[0]
        return state in "TZX"
    return True
