"""Options of commands, and imports of extras."""

import argparse
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from purgatory.durations import parse_duration
from purgatory.errors import PurgatoryError
from purgatory.service.config import LOG_FORMATS, PREFIX

SubParsers: TypeAlias = "argparse._SubParsersAction[Any]"


class Distinct(argparse.Action):
    """Keeps each of several values once, in order."""

    def __call__(
        self,
        _parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        _option: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, list(dict.fromkeys(values or ())))


def add_command(
    subparsers: SubParsers,
    name: str,
    run: Callable[[argparse.Namespace], int] | None,
    summary: str,
    description: str | None = None,
    examples: str | None = None,
) -> argparse.ArgumentParser:
    """Add a command; `run` maps its arguments to the exit code. Returns its parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_group(
    subparsers: SubParsers, name: str, summary: str, description: str, examples: str | None = None
) -> SubParsers:
    """Add a command with subcommands; return the group for them."""
    parser = add_command(subparsers, name, None, summary, description, examples)
    return parser.add_subparsers(metavar="COMMAND", required=True)


def add_json_option(*parsers: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    for parser in parsers:
        parser.add_argument("--json", action="store_true", help="a line of JSON for each")


def from_environment(setting: str, default: str) -> str:
    """Return a setting of the environment, or `default` if missing or empty."""
    return os.environ.get(PREFIX + setting.upper()) or default


def add_log_format(parser: argparse.ArgumentParser) -> None:
    """Add `--log-format`, by default PURGATORY_LOG_FORMAT."""
    parser.add_argument(
        "--log-format",
        metavar="FORMAT",
        type=log_format,
        default=from_environment("log_format", "text"),
        help="text, or json: an object a line (default: text)",
    )


def log_format(text: str) -> str:
    """Parse a format of logs for argparse. Raises ArgumentTypeError."""
    if text not in LOG_FORMATS:
        raise argparse.ArgumentTypeError(f"{text[:50]!r}; expected text or json")
    return text


def seconds(text: str) -> float:
    """Parse a duration for argparse. Raises ArgumentTypeError."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def at_least_one(text: str) -> int:
    """Parse a whole number above 0 for argparse. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text[:50]!r}; expected a whole number of 1 or more")
    return number


def whole_number(text: str) -> int:
    """Parse a whole number for argparse. Raises ArgumentTypeError."""
    try:
        return int(text)
    except ValueError as error:
        message = f"{text[:50]!r}; expected a whole number"
        raise argparse.ArgumentTypeError(message) from error


def number(text: str) -> float:
    """Parse a number for argparse. Raises ArgumentTypeError."""
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:50]!r}; expected a number") from error


def port(text: str) -> int:
    """Parse a TCP port for argparse. Raises ArgumentTypeError."""
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text[:50]!r}; expected a port, 0 to 65535")


DURATION: Final[dict[str, Any]] = {"type": seconds, "metavar": "DURATION"}
COUNT: Final[dict[str, Any]] = {"type": at_least_one, "metavar": "N"}
_LISTED: Final = 100


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add `--limit`, `--wide` and `--json`."""
    text = f"at most so many ({_LISTED})"
    parser.add_argument("--limit", default=_LISTED, help=text, **COUNT)
    text = "whole ids, times and texts, on several lines where need be"
    parser.add_argument("--wide", action="store_true", help=text)
    add_json_option(parser)


def optional_path(text: str | None) -> Path | None:
    """Return the path of an option, if given."""
    return None if text is None else Path(text)


class ExtraMissing(PurgatoryError):
    """Raised if a package of an extra is missing."""


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module with the packages of an extra, when a command runs.

    So the command line starts quickly, and without extras. Raises ExtraMissing, or
    ModuleNotFoundError for a module of this project.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "purgatory":
            raise
        raise ExtraMissing(
            f"this needs {missing}: pip install 'timer-purgatory[{extra}]'"
        ) from error
