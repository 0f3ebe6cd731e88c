"""Options that select jobs: filters and moments."""

import argparse
from datetime import datetime
from typing import Any, Final

from purgatory.cli.options import DURATION
from purgatory.service.errors import ConfigError

#: JOB_STATES of `purgatory.service.job_messages`, which needs the extra.
STATES: Final = ("scheduled", "ready", "running", "retrying", "done", "dead", "cancelled")


def add_filters(parser: argparse.ArgumentParser, *, state: bool = True) -> None:
    """Add the options that select jobs by fields."""
    parser.add_argument("--kind", help="of this kind only")
    if state:
        parser.add_argument("--state", choices=STATES, help="in this state only")
    parser.add_argument("--tag", help="with this tag only")
    parser.add_argument("--client", help="of this client only")


def filters(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the given filters, by name."""
    names = ("kind", "state", "tag", "client")
    given = {name: getattr(arguments, name, None) for name in names}
    return {name: text for name, text in given.items() if text is not None}


def check_selection(command: str, arguments: argparse.Namespace) -> None:
    """Raise ConfigError unless ids, filters or, where possible, `--all` are given alone."""
    ways = [bool(arguments.ids), bool(filters(arguments)), getattr(arguments, "all", False)]
    if sum(ways) != 1:
        more = ", or else --all" if hasattr(arguments, "all") else ""
        raise ConfigError(f"jobs {command}: expected one ID or more, or else filters{more}")


def add_time(parser: argparse.ArgumentParser) -> None:
    """Add the options for a job's time, of which one is required."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument(
        "--in", dest="delay", help="from now on: seconds, 30m, 1h30m, PT30M, P1DT2H", **DURATION
    )
    group.add_argument(
        "--at",
        type=moment_of,
        metavar="MOMENT",
        help="2027-03-01T09:00, local time unless it has a zone (...+01:00)",
    )


def time_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return a job's time as arguments of a client's call."""
    return {"delay": arguments.delay, "at": arguments.at}


def moment_of(text: str) -> datetime:
    """Parse a moment for argparse. Raises ArgumentTypeError."""
    try:
        return datetime.fromisoformat(text).astimezone()  # without a zone: local
    except (ValueError, OverflowError, OSError) as error:
        expected = "expected a moment such as 2027-03-01T09:00 or 2027-03-01T09:00+01:00"
        raise argparse.ArgumentTypeError(f"{text[:50]!r}; {expected}") from error
