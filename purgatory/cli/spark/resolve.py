"""`purgatory spark resolve`: compute the outcomes of a trace. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.extras import import_extra
from purgatory.cli.spark.options import add_session_options
from purgatory.cli.spark.session import command_session

_DESCRIPTION = """\
Give every operation its outcome, as a replay would, to the millisecond.

Tables are files or directories of Parquet, CSV or JSON lines. The outcomes are written to DIR as
Parquet. Rows that break a rule go to DIR/_rejected, each with its reason; with --strict they stop
the job instead, before anything is written."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "resolve",
        help="operations and events in, outcomes out",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("operations", metavar="OPERATIONS", help="table of operations")
    parser.add_argument("events", metavar="EVENTS", help="table of key events")
    parser.add_argument("--extensions", metavar="FILE", help="table of extensions of timeouts")
    parser.add_argument("--out", required=True, metavar="DIR", help="new or empty directory")
    parser.add_argument("--strict", action="store_true", help="fail when a row breaks a rule")
    add_session_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    batch = import_extra("purgatory.spark.batch.job", "spark")
    with command_session(arguments) as spark:
        done = batch.resolve_files(
            spark,
            arguments.operations,
            arguments.events,
            arguments.out,
            extensions=arguments.extensions,
            strict=arguments.strict,
        )
    failed = f"{done.failed:,} failed, " if done.failed else ""
    print(
        f"{done.operations:,} operations: {done.completed:,} completed, {failed}"
        f"{done.expired:,} expired -> {arguments.out}"
    )
    if done.rejected:
        print(f"{done.rejected:,} rows rejected -> {arguments.out}/{batch.REJECTED_DIRECTORY}")
    return 0
