"""`purgatory dead`: see jobs that were given up, have them tried again, or drop them.

Called from the main thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.connection import BAD_NEWS, add_connection_options, connected
from purgatory.cli.extras import import_extra
from purgatory.cli.terminal.values import json_text, moment, optional_text
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.protocol import DeadJob

_DESCRIPTION: Final = """\
See jobs that were given up after their last attempt, have them tried again, or drop them. They are
kept for the workers of the name --name."""

_EXAMPLES: Final = """\
examples:
  purgatory dead list --name reminders
  purgatory dead retry order-17 --name reminders
  purgatory dead drop --all --name reminders

exit codes: 0 done, 1 there is no dead job of an ID, 2 an error"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its subcommands."""
    parser = subparsers.add_parser(
        "dead",
        help="see, retry and drop jobs that were given up",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listed = commands.add_parser("list", help="list them, the oldest first")
    listed.add_argument("--json", action="store_true", help="a line of JSON for each")
    listed.set_defaults(run=_list)
    add_connection_options(listed)
    for name, summary in (("retry", "have them tried again"), ("drop", "forget them")):
        command = commands.add_parser(name, help=summary)
        command.add_argument("ids", metavar="ID", nargs="*", help="of the job")
        command.add_argument("--all", action="store_true", help="all that are there now")
        command.set_defaults(run=_end, verb=name)
        add_connection_options(command)


def _list(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        jobs = list(_dead(client))
    if arguments.json:
        for job in jobs:
            print(json_text({name: getattr(job, name) for name in job.__struct_fields__}))
        return 0
    rows = [
        (job.op_id, job.kind, str(job.attempts), moment(job.at_ms), job.error, _payload(job))
        for job in jobs
    ]
    if rows:
        screen = import_extra("purgatory.cli.terminal.top_screen", "service")
        head = ("job", "kind", "attempts", "given up", "error", "payload")
        screen.print_table(head, rows)
    print(f"{len(rows):,} dead jobs of {client.name!r}")
    return 0


def _payload(job: DeadJob) -> str:
    return optional_text(job.payload)


def _end(arguments: argparse.Namespace) -> int:
    if bool(arguments.ids) == arguments.all:
        raise ConfigError(f"dead {arguments.verb}: expected one ID or more, or else --all")
    with connected(arguments) as client:
        found = {
            job.op_id: job.number
            for job in _dead(client)
            if arguments.all or job.op_id in arguments.ids
        }
        end = client.retry_dead if arguments.verb == "retry" else client.drop_dead
        count = end(found.values())
    print(f"{count:,} jobs {'sent again' if arguments.verb == 'retry' else 'dropped'}")
    missing = [op_id for op_id in arguments.ids if op_id not in found]
    for op_id in missing:
        print(f"{op_id}: {client.name!r} has no dead job of it")
    return BAD_NEWS if missing else 0


def _dead(client: Client) -> Iterator[DeadJob]:
    """Yield the dead jobs of the client, oldest first, a page at a time."""
    after = 0
    while page := client.dead_jobs(after):
        yield from page
        after = page[-1].number
