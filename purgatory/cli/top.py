"""`purgatory stats` and `purgatory top`: a server's figures, once or live in the terminal.

Called from the main thread. Ctrl-C leaves `top` with exit code 0.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import threading
from typing import TYPE_CHECKING

from purgatory.cli.connection import add_connection_options, connected
from purgatory.cli.options import COUNT, DURATION, SubParsers, add_command, import_extra
from purgatory.cli.output import json_text, print_facts
from purgatory.service.errors import ConfigError, WrongVersion

if TYPE_CHECKING:
    from purgatory.cli.screen import Top
    from purgatory.service.client.client import Client


def add_parsers(subparsers: SubParsers) -> None:
    """Add the two commands and their options."""
    summary = "show the figures of a server"
    stats = add_command(subparsers, "stats", _stats, summary, f"{summary.capitalize()}.")
    add_connection_options(stats)
    stats.add_argument("--json", action="store_true", help="as a line of JSON")
    summary = "watch a server in the terminal"
    top = add_command(subparsers, "top", _top, summary, f"{summary.capitalize()}.")
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
    """Show the screen until interrupted. Raises the errors of the client."""
    interval = arguments.interval
    if not 0 < interval < math.inf:
        raise ConfigError(f"--interval {interval}: expected a duration above 0")
    screen = import_extra("purgatory.cli.screen", "service")
    with connected(arguments) as client:
        top = screen.Top(client.address)
        _look(top, client)
        samples = itertools.count(1) if arguments.count is None else range(1, arguments.count)
        tick = threading.Event()  # never set; KeyboardInterrupt ends the wait
        try:
            with screen.live(top) as live:
                for _ in samples:
                    tick.wait(interval)
                    _look(top, client)
                    live.refresh()
        except KeyboardInterrupt:
            pass
    return 0


def _look(top: Top, client: Client) -> None:
    """Add a sample. A server of protocol 2 says nothing of jobs."""
    jobs = {}
    with contextlib.suppress(WrongVersion):
        jobs = client.job_counts()
    top.add(client.stats(), jobs)
