"""`purgatory spark report`: report on a journal. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import Any

from purgatory.cli.extras import import_extra
from purgatory.cli.spark.options import add_session_options

_DESCRIPTION = """\
Say what a journal tells: how operations ended, how long they waited, which keys are hot, which
timeouts would do, and which timing wheel would suit the deadlines.

JOURNAL is a directory with the tables `outcomes` and `operations`, or a table of outcomes alone.
Rows that break a rule are counted and left out; with --strict they stop the job instead."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "report",
        help="what the outcomes say, as tables and a page",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("journal", metavar="JOURNAL", help="directory or table of outcomes")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with plots, complete in itself"
    )
    parser.add_argument(
        "--share",
        type=float,
        nargs="+",
        metavar="SHARE",
        help="wanted shares of completions, 0 to 1 (default 0.5 0.9 0.95 0.99 0.999)",
    )
    parser.add_argument(
        "--tick-ms",
        type=int,
        nargs="+",
        metavar="MS",
        help="ticks of wheels to consider (default 1 10 100 1000)",
    )
    parser.add_argument(
        "--wheel-size",
        type=int,
        nargs="+",
        metavar="SLOTS",
        help="sizes of wheels to consider (default 20 64 512)",
    )
    parser.add_argument("--strict", action="store_true", help="fail when a row breaks a rule")
    add_session_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    reporting = import_extra("purgatory.spark.report.job", "spark")
    options = reporting.make_report_options(
        arguments.share, arguments.tick_ms, arguments.wheel_size
    )
    page = None if arguments.html is None else reporting.PageFile(arguments.html)
    session = import_extra("purgatory.spark.session", "spark")
    with session.open_session(cores=arguments.cores, memory=arguments.memory) as spark:
        reporting.report_journal(spark, arguments.journal, options, page, strict=arguments.strict)
    return 0
