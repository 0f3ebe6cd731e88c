"""`purgatory complete`: complete keys at a server. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected, parse_value


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "complete", run, "complete keys at a server")
    parser.add_argument("keys", metavar="KEY", nargs="+")
    parser.add_argument("--value", metavar="VALUE", help="JSON, or else a text")


def run(arguments: argparse.Namespace) -> int:
    """Complete the keys; print how many operations that completed."""
    value = parse_value(arguments.value)
    with connected(arguments) as client:
        answers = [client.complete_later(key, value) for key in arguments.keys]
        client.flush()
        count = sum(answer.result() for answer in answers)
    print(f"{count:,} operations completed")
    return 0 if count else BAD_NEWS
