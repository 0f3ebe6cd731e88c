"""`purgatory spark report`: report on a journal. Called from the main thread."""

from __future__ import annotations

import argparse
import time
from typing import Any

from purgatory.cli.extras import import_extra
from purgatory.cli.spark.options import add_session_options
from purgatory.cli.spark.session import command_session

_DESCRIPTION = """\
Say what a journal tells: which timeouts to change and what that gains, how operations ended and how
long they waited, at which hours, which keys are hot, and which timing wheel suits the deadlines.

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
        "--against", metavar="JOURNAL", help="an earlier period's; say what changed since"
    )
    parser.add_argument(
        "--export", metavar="DIR", help="write the data of each figure there, as CSV"
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
    page = None if arguments.html is None else reporting.OutputFile(arguments.html)
    data = None if arguments.export is None else reporting.DataDirectory(arguments.export)
    conf = reporting.settings_for(arguments.journal, arguments.against)
    progress_module = import_extra("purgatory.spark.progress", "spark")
    with (
        progress_module.Progress("starting Spark", clock=time.monotonic) as progress,
        command_session(arguments, conf) as spark,
    ):
        reporting.report_journal(
            spark,
            arguments.journal,
            options,
            page,
            against=arguments.against,
            data=data,
            strict=arguments.strict,
            progress=progress.show,
        )
    return 0
