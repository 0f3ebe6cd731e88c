"""`purgatory defer`: have an operation wait at a server. Called from the main thread."""

from __future__ import annotations

import argparse
import json
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected, parse_value
from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.service.errors import ConfigError, OperationFailed


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "defer", run, "have an operation wait at a server")
    parser.add_argument("keys", metavar="KEY", nargs="+", help="what it waits for")
    parser.add_argument(
        "--in",
        dest="timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="when it expires (default: 30)",
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
                print(_shown(future.result()))
            else:
                if future.done():  # it was refused, or has ended already
                    future.result()
                print(future.op_id)
        except (OperationExpired, OperationCancelled, OperationFailed) as end:
            print(end)
            return BAD_NEWS
    return 0


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=repr)
