"""`purgatory cancel`: cancel operations at a server. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "cancel", run, "cancel operations at a server")
    parser.add_argument("ids", metavar="ID", nargs="+")


def run(arguments: argparse.Namespace) -> int:
    """Cancel the operations; print how many were cancelled."""
    with connected(arguments) as client:
        done = [client.cancel(name) for name in arguments.ids]
    print(f"{sum(done):,} operations cancelled")
    return 0 if all(done) else BAD_NEWS
