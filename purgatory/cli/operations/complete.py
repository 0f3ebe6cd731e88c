"""`purgatory complete`: complete keys at a server. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected, parse_value
from purgatory.cli.terminal.durations import DURATION, seconds
from purgatory.service.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "complete", run, "complete keys at a server")
    parser.add_argument("keys", metavar="KEY", nargs="+")
    parser.add_argument("--value", metavar="VALUE", help="JSON, or else a text")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="for at most N operations, the longest waiting first"
    )
    parser.add_argument(
        "--hold",
        type=seconds,
        default=0.0,
        metavar=DURATION,
        help="count for operations submitted within that time, too (60, 5m); then exit code 0",
    )


def run(arguments: argparse.Namespace) -> int:
    """Complete the keys; print how many operations that completed."""
    value = parse_value(arguments.value)
    with connected(arguments) as client:
        try:
            answers = [
                client.complete_later(key, value, limit=arguments.limit, hold=arguments.hold)
                for key in arguments.keys
            ]
        except ValueError as error:  # says which argument, and what it may be
            raise ConfigError(str(error)) from error
        client.flush()
        count = sum(answer.result() for answer in answers)
    print(f"{count:,} operations completed")
    return 0 if count or arguments.hold else BAD_NEWS
