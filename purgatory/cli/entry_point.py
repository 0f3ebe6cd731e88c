"""The command line: `purgatory`, or `python -m purgatory`.

A command is a module with a function `add_parser(subparsers)`, listed in `COMMANDS`. It adds a
parser and sets its default `run`: a function from the parsed arguments to the exit code. A command
raises its errors; only this module prints them. Called from the main thread.

Exit codes: 0 done; 1 done, and the answer is bad news (the command's help says which); 2 an error,
printed as one line on stderr; 130 interrupted by Ctrl-C; 141 the output pipe was closed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from purgatory.cli import backup, completion, gateway, replay, serve, spark, stats, top, trace
from purgatory.cli.access import keys, tokens
from purgatory.cli.environment import misspelt
from purgatory.cli.jobs import dead, worker
from purgatory.cli.operations import (
    cancel,
    complete,
    defer,
    extend,
    fail,
    list_operations,
    outcomes,
    query,
)
from purgatory.errors import PurgatoryError

SubParsers: TypeAlias = "argparse._SubParsersAction[Any]"

COMMANDS: Final[tuple[Callable[[SubParsers], None], ...]] = (
    replay.add_parser,
    trace.add_parser,
    spark.add_parser,
    serve.add_parser,
    backup.add_parser,
    keys.add_parser,
    gateway.add_parser,
    tokens.add_parser,
    defer.add_parser,
    complete.add_parser,
    fail.add_parser,
    extend.add_parser,
    cancel.add_parser,
    query.add_parser,
    list_operations.add_parser,
    outcomes.add_parser,
    worker.add_parser,
    dead.add_parser,
    stats.add_parser,
    top.add_parser,
    completion.add_parser,
)

FAILED: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as a shell reports it
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE

_EXAMPLES: Final = """\
examples:
  purgatory trace flights DIR       make a trace of a year of real flights
  purgatory replay OPERATIONS EVENTS
                                    send a trace through a purgatory
  purgatory trace check FILE        see whether a table of a trace is sound
  purgatory spark report JOURNAL    what a journal says, computed on Spark
  purgatory serve                   run a timer service for other processes
  purgatory COMMAND --help          all that a command can do

exit codes: 0 done, 1 bad news, 2 an error (one line on stderr), 130 interrupted"""


class UsageError(Exception):
    """Raised for a wrong command line."""


# Errors whose message is complete; `_error_message` words the others.
EXPECTED: Final = (PurgatoryError, UsageError)


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print several lines of usage and exit."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, naming the command."""
        command = self.prog.partition(" ")[2]
        raise UsageError(f"{command}: {message}" if command else message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors are printed, not raised.

    With PURGATORY_TRACEBACK=1 in the environment they are raised.
    """
    try:
        # A file name that stdout cannot encode is escaped.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        code = _run(argv)
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a failure can still be reported
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except Exception as error:
        if os.environ.get("PURGATORY_TRACEBACK"):
            raise
        _drop_output()
        return _fail(_error_message(error))
    return code


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="purgatory",
        description="Delayed operations: each completes when a watch key is completed, or expires.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"purgatory {_version()}")
    parser.set_defaults(whole=parser)  # for `completion`
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_parser in COMMANDS:
        add_parser(subparsers)
    return parser


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    for name, nearest in misspelt(os.environ).items():
        _print_error(f"warning: {name} is no setting; did you mean {nearest}?")
    return int(arguments.run(arguments))


def _fail(message: str, code: int = FAILED) -> int:
    _print_error(message)
    return code


def _print_error(message: str) -> None:
    # A file name may contain line breaks, and, as surrogates, bytes that are not UTF-8.
    text = " ".join(f"purgatory: {message}".split())
    line = text.encode("utf-8", "backslashreplace").decode()
    try:
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _drop_output()


def _error_message(error: Exception) -> str:
    if isinstance(error, EXPECTED):
        return str(error)
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError):
        what = error.strerror or str(error)
        return f"{error.filename}: {what}" if error.filename else what
    return f"unexpected error, please report it: {error!r}"


def _drop_output() -> None:
    """Discard buffered output: Python flushes it at exit, which would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(nowhere, stream.fileno())
            except (AttributeError, ValueError):  # the stream is None or closed
                pass
    finally:
        os.close(nowhere)


def _version() -> str:
    try:
        return importlib.metadata.version("timer-purgatory")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
