"""The command line: `purgatory`, or `python -m purgatory`.

Only the module of the given command is imported: the others would take as long as the rest of the
start. A command's `run` maps the parsed arguments to the exit code. Only this module prints errors,
each as one line on stderr.
"""

import argparse
import difflib
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final, NoReturn

from purgatory.cli.options import add_command, import_extra
from purgatory.cli.process import INTERRUPTED, drop_output
from purgatory.errors import PurgatoryError
from purgatory.printable import printable
from purgatory.service.config import CONFIG_FILE, PREFIX, Config
from purgatory.version import package_version

#: The commands in the order of `--help`, and the modules whose `add_parsers` adds them.
COMMANDS: Final = {
    "replay": "purgatory.cli.replay",
    "trace": "purgatory.cli.trace",
    "spark": "purgatory.cli.spark",
    "serve": "purgatory.cli.serve",
    "backup": "purgatory.cli.backup",
    "restore": "purgatory.cli.backup",
    "store": "purgatory.cli.store",
    "gateway": "purgatory.cli.gateway",
    "keys": "purgatory.cli.access",
    "tokens": "purgatory.cli.access",
    "defer": "purgatory.cli.operations",
    "complete": "purgatory.cli.operations",
    "fail": "purgatory.cli.operations",
    "extend": "purgatory.cli.operations",
    "cancel": "purgatory.cli.operations",
    "query": "purgatory.cli.operations",
    "list": "purgatory.cli.operations",
    "outcomes": "purgatory.cli.outcomes",
    "worker": "purgatory.cli.worker",
    "repeats": "purgatory.cli.repeats",
    "jobs": "purgatory.cli.jobs",
    "stats": "purgatory.cli.top",
    "top": "purgatory.cli.top",
}
#: The settings of a connection, see `purgatory.cli.connection`.
CONNECTION: Final = ("address", "name", "key", "server_key", "patience")
# The least likeness of two names of variables; 1 is the same.
_LIKENESS: Final = 0.75

FAILED: Final = 2
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

exit codes: 0 done, 1 a negative answer, 2 an error (one line on stderr), 130 interrupted"""

_COMPLETION: Final = """\
Print the script with which a shell completes the commands and options of purgatory. Needs
timer-purgatory[completion]."""

_COMPLETION_EXAMPLES: Final = """\
examples:
  purgatory completion bash > ~/.local/share/bash-completion/completions/purgatory
  purgatory completion zsh > ~/.zfunc/_purgatory        (with ~/.zfunc in $fpath)
  purgatory completion fish > ~/.config/fish/completions/purgatory.fish"""


class UsageError(Exception):
    """Raised for a wrong command line."""


# Errors with complete messages.
EXPECTED: Final = (PurgatoryError, UsageError)


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse prints several lines and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, naming the command."""
        command = self.prog.partition(" ")[2]
        raise UsageError(f"{command}: {message}" if command else message)


class _Version(argparse.Action):
    """Prints the version; argparse's own action would need the version at each start."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"purgatory {package_version()}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors are printed.

    With PURGATORY_TRACEBACK=1 in the environment they are raised.
    """
    try:
        # A file name that stdout cannot encode is escaped.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        code = _run(argv)
        if sys.stdout is not None:
            sys.stdout.flush()  # while a failure can still be reported
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        drop_output()
        return PIPE_CLOSED
    except Exception as error:
        if os.environ.get("PURGATORY_TRACEBACK"):
            raise
        drop_output()
        return _fail(_error_message(error))
    return code


def make_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line: of one command, or, if none has the name, of all."""
    parser = Parser(
        prog="purgatory",
        description="Delayed operations: each completes when a watch key is completed, or expires.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.set_defaults(whole=parser)  # for `_complete`
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    modules = [COMMANDS[command]] if command in COMMANDS else COMMANDS.values()
    for module in dict.fromkeys(modules):
        importlib.import_module(module).add_parsers(subparsers)
    summary = "complete commands and options in a shell"
    completion = add_command(
        subparsers, "completion", _complete, summary, _COMPLETION, _COMPLETION_EXAMPLES
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")
    return parser


def _complete(arguments: argparse.Namespace) -> int:
    shtab = import_extra("shtab", "completion")
    print(shtab.complete(arguments.whole, shell=arguments.shell))
    return 0


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments = make_parser(next(iter(words), None)).parse_args(words)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    for name, nearest in misspelt(os.environ).items():
        _print_error(f"warning: {name} is not a setting; did you mean {nearest}?")
    return int(arguments.run(arguments))


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables close to a known name -> that name.

    Only close ones: Kubernetes sets PURGATORY_PORT for a service of that name.
    """
    settings = [field.name for field in fields(Config)] + [*CONNECTION, "traceback"]
    known = {name.upper() for name in settings} | {CONFIG_FILE.removeprefix(PREFIX)}
    found = {}
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known:
            continue
        nearest = difflib.get_close_matches(name.upper(), known, 1, _LIKENESS)
        if nearest:
            found[variable] = PREFIX + nearest[0]
    return found


def _fail(message: str, code: int = FAILED) -> int:
    _print_error(message)
    return code


def _print_error(message: str) -> None:
    # Messages may have several lines, and any characters.
    line = printable(" ".join(f"purgatory: {message}".split()))
    try:
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        drop_output()


def _error_message(error: Exception) -> str:
    if isinstance(error, EXPECTED):
        return str(error)
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, OSError):
        what = error.strerror or str(error)
        return f"{error.filename}: {what}" if error.filename else what
    return f"unexpected error, please report it: {error!r}"
