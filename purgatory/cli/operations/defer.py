"""`purgatory defer`: have an operation wait at a server. Called from the main thread."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected, parse_value
from purgatory.cli.terminal.durations import DURATION, seconds
from purgatory.cli.terminal.values import value_text
from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.service.errors import ConfigError, OperationFailed


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "defer", run, "have an operation wait at a server")
    parser.add_argument("keys", metavar="KEY", nargs="+", help="what it waits for")
    parser.add_argument(
        "--in",
        dest="timeout",
        type=seconds,
        default=30.0,
        metavar=DURATION,
        help="when it expires: seconds, 30m, 1h30m, PT30M, P1DT2H (default: 30)",
    )
    parser.add_argument("--need", type=int, default=1, metavar="N", help="how many of the keys")
    parser.add_argument("--kind", default="", help="a word for the statistics")
    parser.add_argument("--id", metavar="ID", help="its id; the same one twice is one operation")
    parser.add_argument("--payload", metavar="VALUE", help="kept with it: JSON, or else a text")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="until it ends; prints the value, exit code 1 if it does not complete",
    )


def run(arguments: argparse.Namespace) -> int:
    """Submit the operation; print its id or, with --wait, how it ended."""
    with connected(arguments) as client:
        try:
            future = client.defer(
                *arguments.keys,
                timeout=arguments.timeout,
                need=arguments.need,
                kind=arguments.kind,
                op_id=arguments.id,
                payload=parse_value(arguments.payload),
            )
        except ValueError as error:  # says which argument, and what it may be
            raise ConfigError(str(error)) from error
        client.flush()
        try:
            if arguments.wait:
                print(value_text(future.result()))
            else:
                if future.done():  # it was refused, or has ended already
                    future.result()
                print(future.op_id)
                _tell_where_its_outcome_is(client.name, future.op_id)
        except (OperationExpired, OperationCancelled, OperationFailed) as end:
            print(end)
            return BAD_NEWS
    return 0


def _tell_where_its_outcome_is(client: str, op_id: str) -> None:
    """Say so to a person; a program that reads stderr is not told."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(
            f"its outcome is kept for {client!r}: purgatory outcomes show {op_id}", file=sys.stderr
        )
