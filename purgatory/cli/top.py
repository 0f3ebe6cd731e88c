"""`purgatory stats` and `purgatory top`: a server's figures, once or live.

Ctrl-C and q leave `top` with exit code 0.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import select
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from purgatory.cli.connection import add_connection_options, connected
from purgatory.cli.options import COUNT, DURATION, SubParsers, add_command, import_extra
from purgatory.cli.output import json_text, print_facts
from purgatory.cli.process import leaving_on_sigterm
from purgatory.cli.top_tables import HELP, QUIT, TABLES
from purgatory.service.errors import ConfigError, WrongVersion

if TYPE_CHECKING:
    from purgatory.cli.screen import Top
    from purgatory.service.client.client import Client

if TYPE_CHECKING or os.name == "posix":
    import termios
    import tty


class Keyboard:
    """The keys of a terminal `stream` (stdin) during the block; without one, no key comes."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdin if stream is None else stream
        self.is_there: bool = os.name == "posix" and bool(self._stream and self._stream.isatty())
        self._before: list[Any] = []
        self._never = threading.Event()  # an interruptible sleep

    def __enter__(self) -> Self:
        if self.is_there:
            self._before = termios.tcgetattr(self._stream)
            tty.setcbreak(self._stream)
        return self

    def wait(self, seconds: float) -> str:
        """Return the next key; empty after `seconds`."""
        if not self.is_there:
            self._never.wait(seconds)
            return ""
        ready, _, _ = select.select([self._stream], [], [], seconds)
        found = os.read(self._stream.fileno(), 1) if ready else b""
        if ready and not found:  # the terminal is gone
            self.is_there = False
        return found.decode("latin-1")

    def __exit__(self, *error: object) -> None:
        if self._before:
            termios.tcsetattr(self._stream, termios.TCSADRAIN, self._before)


# The system's calls refuse a wait of centuries.
_LONGEST_WAIT_S: Final = 3600.0
_TOP: Final = f"""\
Watch a server in the terminal: what is wrong comes first. Keys change the table of jobs:
{HELP}."""


def add_parsers(subparsers: SubParsers) -> None:
    """Add the two commands."""
    summary = "show the figures of a server"
    stats = add_command(subparsers, "stats", _stats, summary, f"{summary.capitalize()}.")
    add_connection_options(stats)
    stats.add_argument("--json", action="store_true", help="as a line of JSON")
    summary = "watch a server in the terminal"
    top = add_command(subparsers, "top", _top, summary, _TOP)
    top.add_argument("--interval", default=1.0, help="between two looks (1)", **DURATION)
    top.add_argument("--count", help="end after so many looks", **COUNT)
    add_connection_options(top)


def _stats(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        figures = client.stats()
    if arguments.json:
        print(json_text(figures))
    else:
        screen = import_extra("purgatory.cli.screen", "service")
        rows = {
            name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " "): shown
            for name, figure in figures.items()
            if (shown := screen.figure_shown(name, figure))
        }
        print_facts([rows], right=True)
    return 0


def _top(arguments: argparse.Namespace) -> int:
    interval = arguments.interval
    if not 0 < interval < math.inf:
        raise ConfigError(f"--interval {interval}: expected a duration above 0")
    screen = import_extra("purgatory.cli.screen", "service")
    with connected(arguments) as client:
        top = screen.Top(client.address)
        _look(top, client)
        samples = itertools.count(1) if arguments.count is None else range(1, arguments.count)
        with (
            contextlib.suppress(KeyboardInterrupt),
            leaving_on_sigterm(),
            Keyboard() as keyboard,
            screen.live(top) as live,
        ):
            top.has_keys = keyboard.is_there
            for _ in samples:
                if not _pause(top, keyboard, interval):
                    break
                _look(top, client)
                live.refresh()
    return 0


def _pause(top: Top, keyboard: Keyboard, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        key = keyboard.wait(min(left, _LONGEST_WAIT_S))
        if key == QUIT:
            return False
        if top.press(key):
            break
    return True


def _look(top: Top, client: Client) -> None:
    """Add a sample. A server of protocol 2 has no jobs."""
    overview, rows = None, []
    with contextlib.suppress(WrongVersion):
        overview = client.overview()
        if top.table in TABLES:
            rows = TABLES[top.table].rows(client)
    top.add(client.stats(), overview, rows)
