"""`purgatory fail`: fail keys at a server. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected
from purgatory.service.errors import OperationFailed


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "fail", run, "fail keys at a server")
    parser.add_argument("keys", metavar="KEY", nargs="+")
    parser.add_argument("--error", default="Failed", metavar="NAME", help="its type (Failed)")
    parser.add_argument("--message", default="", metavar="TEXT", help="what went wrong")


def run(arguments: argparse.Namespace) -> int:
    """Fail the keys; print how many operations that ended."""
    error = OperationFailed(arguments.error, arguments.message)
    with connected(arguments) as client:
        answers = [client.fail_later(key, error) for key in arguments.keys]
        client.flush()
        count = sum(answer.result() for answer in answers)
    print(f"{count:,} operations failed")
    return 0 if count else BAD_NEWS
