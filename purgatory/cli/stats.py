"""`purgatory stats`: show the figures of a server. Called from the main thread."""

from __future__ import annotations

import argparse
import json
from typing import Any

from purgatory.cli.connection import add_command, connected
from purgatory.cli.extras import import_extra


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "stats", run, "show the figures of a server")
    parser.add_argument("--json", action="store_true", help="as a line of JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the figures of the server."""
    with connected(arguments) as client:
        figures = client.stats()
    if arguments.json:
        print(json.dumps(figures))
    else:
        rows = [(name.replace("_", " "), f"{figure:,.10g}") for name, figure in figures.items()]
        import_extra("purgatory.cli.terminal.top_screen", "service").print_facts([rows], right=True)
    return 0
