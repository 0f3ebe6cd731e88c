"""`purgatory spark`: the group of its commands. Called from the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from purgatory.cli.spark import compact, package, report, resolve, run

SubParsers: TypeAlias = "argparse._SubParsersAction[Any]"

COMMANDS: Final[tuple[Callable[[SubParsers], None], ...]] = (
    resolve.add_parser,
    run.add_parser,
    compact.add_parser,
    report.add_parser,
    package.add_parser,
)


def add_parser(subparsers: SubParsers) -> None:
    """Add `spark` and its commands."""
    parser = subparsers.add_parser(
        "spark",
        help="the same on Spark, for more than one machine holds",
        description="Traces on Apache Spark, on this machine or, under spark-submit, a cluster.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_command in COMMANDS:
        add_command(commands)
