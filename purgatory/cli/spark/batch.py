"""`purgatory spark resolve`, `report` and `package`."""

import argparse
import time
from pathlib import Path
from typing import Final

from purgatory.cli.options import SubParsers, add_command, import_extra, number, whole_number
from purgatory.cli.output import say
from purgatory.cli.spark.session import add_session_options, command_session
from purgatory.printable import counted
from purgatory.spark.package import write_package
from purgatory.trace.path_conflicts import check_outputs

_RESOLVE: Final = """\
Give every operation its outcome, as a replay would, to the millisecond.

Tables are files or directories of Parquet, CSV or JSON lines. The outcomes are written to DIR as
Parquet. Rows that break a rule go to DIR/_rejected, each with its reason; with --strict they stop
the job instead, before anything is written."""

_REPORT: Final = """\
Report on a journal: timeouts to change and the gain, how operations ended and how long they waited,
by hour, hot keys, and the timing wheel that suits the deadlines.

JOURNAL is a directory with the tables `outcomes` and `operations`, or a table of outcomes alone; or
the data directory of several servers over one database, for all of their journals. Rows that break
a rule are counted and left out; with --strict they stop the job instead."""

_PACKAGE: Final = """\
Write a zip of this package, and a program that uses the zip, into DIR:

  spark-submit --master MASTER --py-files DIR/purgatory.zip DIR/purgatory_main.py resolve ..."""


def add_resolve(subparsers: SubParsers) -> None:
    """Add `spark resolve`."""
    summary = "operations and events in, outcomes out"
    parser = add_command(subparsers, "resolve", _resolve, summary, _RESOLVE)
    parser.add_argument("operations", metavar="OPERATIONS", help="table of operations")
    parser.add_argument("events", metavar="EVENTS", help="table of key events")
    parser.add_argument("--extensions", metavar="FILE", help="table of extensions of timeouts")
    parser.add_argument("--out", required=True, metavar="DIR", help="new or empty directory")
    parser.add_argument("--strict", action="store_true", help="fail when a row breaks a rule")
    add_session_options(parser)


def _resolve(arguments: argparse.Namespace) -> int:
    inputs = (arguments.operations, arguments.events, arguments.extensions)
    check_outputs({"--out": arguments.out}, inputs)
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
    say(
        f"{counted(done.operations, 'operation')}: {done.completed:,} completed, {failed}"
        f"{done.expired:,} expired -> {arguments.out}"
    )
    if done.rejected:
        where = f"{arguments.out}/{batch.REJECTED_DIRECTORY}"
        say(f"{counted(done.rejected, 'row')} rejected -> {where}")
    return 0


def add_report(subparsers: SubParsers) -> None:
    """Add `spark report`."""
    summary = "what the outcomes say, as tables and a page"
    parser = add_command(subparsers, "report", _report, summary, _REPORT)
    parser.add_argument("journal", metavar="JOURNAL", help="directory or table of outcomes")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page with plots, complete in itself"
    )
    parser.add_argument(
        "--against", metavar="JOURNAL", help="an earlier period's journal; report the changes since"
    )
    parser.add_argument(
        "--export",
        metavar="DIR",
        help="write the data of each figure there, as CSV, in place of an earlier report's",
    )
    text = "wanted shares of completions, 0 to 1 (default 0.5 0.9 0.95 0.99 0.999)"
    parser.add_argument("--share", type=number, nargs="+", metavar="SHARE", help=text)
    text = "ticks of wheels to consider (default 0.2 1 10 100 1000)"
    parser.add_argument("--tick-ms", type=number, nargs="+", metavar="MS", help=text)
    text = "sizes of wheels to consider (default 20 64 512)"
    parser.add_argument("--wheel-size", type=whole_number, nargs="+", metavar="SLOTS", help=text)
    parser.add_argument("--strict", action="store_true", help="fail when a row breaks a rule")
    add_session_options(parser)


def _report(arguments: argparse.Namespace) -> int:
    journals = (arguments.journal, arguments.against)
    inputs = [table for journal in journals if journal is not None for table in _tables_of(journal)]
    check_outputs({"--html": arguments.html, "--export": arguments.export}, inputs)
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


def _tables_of(journal: str) -> list[Path | str]:
    folder = Path(journal)
    names = ("outcomes", "operations", "jobs")
    beside = folder.iterdir() if journal and folder.is_dir() else ()
    return [path for path in beside if path.name.split(".")[0] in names] or [journal]


def add_package(subparsers: SubParsers) -> None:
    """Add `spark package`."""
    summary = "write the zip that spark-submit takes along"
    parser = add_command(subparsers, "package", _package, summary, _PACKAGE)
    parser.add_argument("directory", metavar="DIR", help="where to write")


def _package(arguments: argparse.Namespace) -> int:
    check_outputs({"DIR": arguments.directory}, ())
    archive, program = write_package(Path(arguments.directory))
    print(f"spark-submit --py-files {archive} {program} resolve OPERATIONS EVENTS --out DIR")
    return 0
