"""`purgatory jobs pause`, `resume` and `limit`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from purgatory.cli.connection import add_connection_options, connected
from purgatory.cli.options import (
    Distinct,
    SubParsers,
    add_command,
    add_json_option,
    number,
    whole_number,
)
from purgatory.cli.output import print_records, say
from purgatory.printable import counted
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.job_messages import KindLimit

_HEAD: Final = ("kind", "paused", "leased at most", "leased a second")
_LIMIT: Final = """\
Limit the jobs of a kind, over all workers of the server and also after a restart; 0 takes a limit
away. Without KIND, list the limits and the paused kinds."""
_LIMIT_EXAMPLES: Final = """\
examples:
  purgatory jobs limit
  purgatory jobs limit mail --running 10 --per-second 2.5
  purgatory jobs limit mail --running 0

exit codes: 0 done, 2 an error"""


def add_kinds(commands: SubParsers) -> None:
    """Add the commands about kinds of jobs."""
    for name, summary, text in (
        (
            "pause",
            "give workers no jobs of some kinds",
            "Give workers no more jobs of a kind; jobs that they have may begin.",
        ),
        ("resume", "give workers jobs of paused kinds", "Give workers jobs of paused kinds again."),
    ):
        parser = add_command(commands, name, _pause, summary, text)
        parser.add_argument("kinds", metavar="KIND", nargs="+", action=Distinct, help="of jobs")
        parser.set_defaults(verb=name)
        add_connection_options(parser)
    summary = "limit the jobs of a kind, or list the limits"
    parser = add_command(commands, "limit", _limit, summary, _LIMIT, _LIMIT_EXAMPLES)
    parser.add_argument("kind", metavar="KIND", nargs="?", help="of jobs")
    parser.add_argument(
        "--running", type=whole_number, metavar="N", help="at most N leased at a time"
    )
    parser.add_argument(
        "--per-second", type=number, metavar="RATE", help="RATE leased a second, on average"
    )
    add_json_option(parser)
    add_connection_options(parser)


def _pause(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        change = client.pause if arguments.verb == "pause" else client.resume
        for kind in arguments.kinds:
            change(kind)
            say(f"{kind}: {arguments.verb}d")
    return 0


def _limit(arguments: argparse.Namespace) -> int:
    is_change = arguments.running is not None or arguments.per_second is not None
    if is_change != (arguments.kind is not None):
        raise ConfigError("jobs limit: KIND and --running or --per-second come together")
    with connected(arguments) as client:
        if is_change:
            client.limit(arguments.kind, arguments.running, arguments.per_second)
        limits = [each for each in client.limits() if arguments.kind in (None, each.kind)]
    print_records(
        limits, _HEAD, _row, lambda count: counted(count, "limited kind"), as_json=arguments.json
    )
    return 0


def _row(limit: KindLimit) -> tuple[str, ...]:
    return (
        limit.kind,
        "paused" if limit.paused else "",
        "" if limit.running is None else str(limit.running),
        "" if limit.per_second is None else f"{limit.per_second:.15g}",
    )
