"""`purgatory extend`: give operations at a server more time. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected
from purgatory.cli.terminal.durations import DURATION, seconds
from purgatory.service.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "extend", run, "give operations at a server more time")
    parser.add_argument("ids", metavar="ID", nargs="+")
    parser.add_argument(
        "--in",
        dest="timeout",
        type=seconds,
        required=True,
        metavar=DURATION,
        help="when they expire, from now on: seconds, 30m, 1h30m, PT30M, P1DT2H",
    )


def run(arguments: argparse.Namespace) -> int:
    """Extend the operations; print how many were extended."""
    with connected(arguments) as client:
        try:
            answers = [client.extend_later(name, arguments.timeout) for name in arguments.ids]
        except ValueError as error:  # says which argument, and what it may be
            raise ConfigError(str(error)) from error
        client.flush()
        done = [answer.result() for answer in answers]
    print(f"{sum(done):,} operations extended")
    return 0 if all(done) else BAD_NEWS
