"""`purgatory outcomes`: see, read and acknowledge outcomes that no client has taken yet.

An outcome stays at the server, for the client that its operation belongs to, until a client of that
name acknowledges it or the retention of the server is over. Called from the main thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from purgatory.cli.connection import BAD_NEWS, add_connection_options, connected
from purgatory.cli.extras import import_extra
from purgatory.cli.terminal.values import json_text, moment, optional_text, result_text
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.protocol import OutcomeMessage

_DESCRIPTION = """\
See, read and acknowledge outcomes that no client has taken yet. They are kept for the client that
the operations belong to, --name. Looking at them takes none away."""

_EXAMPLES = """\
examples:
  purgatory outcomes list            of operations deferred here, without --wait
  purgatory outcomes show order-17   with its result and its payload
  purgatory outcomes ack order-17    so that it is kept no longer
  purgatory outcomes list --name shop --json

exit codes: 0 done, 1 there is no unread outcome of an ID, 2 an error"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its subcommands."""
    parser = subparsers.add_parser(
        "outcomes",
        help="see, read and acknowledge unread outcomes",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    listed = commands.add_parser("list", help="list them, the oldest first")
    listed.set_defaults(run=_list)
    shown = commands.add_parser("show", help="show some, with result and payload")
    shown.add_argument("ids", metavar="ID", nargs="+", help="of the operation")
    shown.set_defaults(run=_show)
    for command in (listed, shown):
        command.add_argument("--json", action="store_true", help="a line of JSON for each")
    ack = commands.add_parser("ack", help="acknowledge them: they are kept no longer")
    ack.add_argument("ids", metavar="ID", nargs="*", help="of the operation")
    ack.add_argument("--all", action="store_true", help="all that are there now")
    ack.set_defaults(run=_acknowledge)
    for command in (listed, shown, ack):
        add_connection_options(command)


def _list(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        outcomes = list(_unread(client))
    if arguments.json:
        _print_json(outcomes)
        return 0
    rows = [
        (one.op_id, one.outcome, moment(one.at_ms), result_text(one.outcome, one.result))
        for one in outcomes
    ]
    screen = import_extra("purgatory.cli.terminal.top_screen", "service")
    if rows:
        screen.print_table(("operation", "outcome", "ended", "result"), rows)
    print(f"{len(rows):,} unread outcomes of client {client.name!r}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = {one.op_id: one for one in _unread(client) if one.op_id in arguments.ids}
    outcomes = [found[op_id] for op_id in arguments.ids if op_id in found]
    if arguments.json:
        _print_json(outcomes)
    elif outcomes:
        import_extra("purgatory.cli.terminal.top_screen", "service").print_facts(
            [_rows(outcome) for outcome in outcomes]
        )
    return _tell_missing(arguments.ids, found, client.name)


def _acknowledge(arguments: argparse.Namespace) -> int:
    if bool(arguments.ids) == arguments.all:
        raise ConfigError("outcomes ack: expected one ID or more, or else --all")
    with connected(arguments) as client:
        found = {
            one.op_id: one.number
            for one in _unread(client)
            if arguments.all or one.op_id in arguments.ids
        }
        count = client.acknowledge(found.values())
    print(f"{count:,} outcomes acknowledged")
    return _tell_missing(arguments.ids, found, client.name)


def _unread(client: Client) -> Iterator[OutcomeMessage]:
    """Yield the unread outcomes of the client, oldest first, a page at a time."""
    after = 0
    while page := client.unread(after):
        yield from page
        after = page[-1].number


def _tell_missing(ids: Sequence[str], found: dict[str, Any], client: str) -> int:
    missing = [op_id for op_id in ids if op_id not in found]
    for op_id in missing:
        print(f"{op_id}: client {client!r} has no unread outcome of it")
    return BAD_NEWS if missing else 0


def _print_json(outcomes: Sequence[OutcomeMessage]) -> None:
    for outcome in outcomes:
        print(json_text({name: getattr(outcome, name) for name in outcome.__struct_fields__}))


def _rows(outcome: OutcomeMessage) -> list[tuple[str, str]]:
    """Return names and texts of an outcome; empty ones are left out."""
    facts = {
        "operation": outcome.op_id,
        "outcome": outcome.outcome,
        "kind": outcome.kind,
        "submitted": moment(outcome.submitted_ms),
        "deadline": moment(outcome.deadline_ms),
        "ended": moment(outcome.at_ms),
        "by key": outcome.by_key or "",
        "result": result_text(outcome.outcome, outcome.result),
        "payload": optional_text(outcome.payload),
    }
    return [(name, fact) for name, fact in facts.items() if fact]
