"""`purgatory top`: a server's figures, live in the terminal.

Called from the main thread. Ctrl-C leaves it with exit code 0.
"""

from __future__ import annotations

import argparse
import itertools
import math
import threading
from typing import Any

from purgatory.cli.connection import add_connection_options, connected
from purgatory.cli.extras import import_extra
from purgatory.cli.terminal.durations import DURATION, seconds
from purgatory.service.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    summary = "watch a server in the terminal"
    parser = subparsers.add_parser("top", help=summary, description=f"{summary.capitalize()}.")
    parser.add_argument(
        "--interval", type=seconds, default=1.0, metavar=DURATION, help="between two looks (1)"
    )
    parser.add_argument("--count", type=int, metavar="N", help="end after so many looks")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show the screen until interrupted. Raises the errors of the client."""
    interval = arguments.interval
    if not 0 < interval < math.inf:
        raise ConfigError(f"--interval {interval}: expected a duration above 0")
    terminal = import_extra("purgatory.cli.terminal.top_screen", "service")
    with connected(arguments) as client:
        top = terminal.Top(client.address)
        top.add(client.stats())
        samples = itertools.count(1) if arguments.count is None else range(1, arguments.count)
        tick = threading.Event()  # never set; KeyboardInterrupt ends the wait
        try:
            with terminal.live(top) as live:
                for _ in samples:
                    tick.wait(interval)
                    top.add(client.stats())
                    live.refresh()
        except KeyboardInterrupt:
            pass
    return 0
