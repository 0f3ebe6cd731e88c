"""`purgatory outcomes`: unread outcomes at a server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.cli.connection import add_connection_options, connected
from purgatory.cli.options import Distinct, SubParsers, add_command, add_group, add_json_option
from purgatory.cli.output import (
    moment,
    optional_text,
    print_facts,
    print_json,
    print_records,
    report_missing,
    result_text,
)
from purgatory.printable import counted
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.protocol import OutcomeMessage

_OUTCOMES: Final = """\
See, read and acknowledge outcomes that no client has taken yet. They are kept for the client that
the operations belong to, --name. Looking at them takes none away."""

_OUTCOMES_EXAMPLES: Final = """\
examples:
  purgatory outcomes list            of operations deferred here, without --wait
  purgatory outcomes show order-17   with its result and its payload
  purgatory outcomes ack order-17    so that it is kept no longer
  purgatory outcomes list --name shop --json

exit codes: 0 done, 1 there is no unread outcome of an ID, 2 an error"""


def add_parsers(subparsers: SubParsers) -> None:
    """Add `purgatory outcomes`."""
    summary = "see, read and acknowledge unread outcomes"
    commands = add_group(subparsers, "outcomes", summary, _OUTCOMES, _OUTCOMES_EXAMPLES)
    listed = add_command(commands, "list", _list_outcomes, "list them, the oldest first")
    shown = add_command(commands, "show", _show, "show some, with result and payload")
    shown.add_argument("ids", metavar="ID", nargs="+", action=Distinct, help="of the operation")
    add_json_option(listed, shown)
    for parser in (listed, shown):
        add_connection_options(parser)
    summary = "acknowledge them: they are kept no longer"
    ended = add_command(commands, "ack", _acknowledge, summary)
    ended.add_argument("ids", metavar="ID", nargs="*", action=Distinct, help="of the operation")
    ended.add_argument("--all", action="store_true", help="all present ones")
    add_connection_options(ended)


def _list_outcomes(arguments: argparse.Namespace) -> int:
    head = ("operation", "outcome", "ended", "result")
    with connected(arguments) as client:
        print_records(
            _unread(client),
            head,
            lambda one: (
                *(one.op_id, one.outcome, moment(one.at_ms)),
                result_text(one.outcome, one.result),
            ),
            lambda count: f"{counted(count, 'unread outcome')} of client {client.name!r}",
            as_json=arguments.json,
        )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = {one.op_id: one for one in _unread(client) if one.op_id in arguments.ids}
    outcomes = [found[op_id] for op_id in arguments.ids if op_id in found]
    if arguments.json:
        print_json(outcomes)
    else:
        print_facts(_facts(outcome) for outcome in outcomes)
    return _report_missing(arguments.ids, found, client.name)


def _acknowledge(arguments: argparse.Namespace) -> int:
    if bool(arguments.ids) == arguments.all:
        raise ConfigError("outcomes ack: expected one ID or more, or else --all")
    with connected(arguments) as client:
        wanted = (one for one in _unread(client) if arguments.all or one.op_id in arguments.ids)
        found = {outcome.op_id: outcome.number for outcome in wanted}
        count = client.acknowledge(found.values())
    print(f"{counted(count, 'outcome')} acknowledged")
    return _report_missing(arguments.ids, found, client.name)


def _unread(client: Client) -> Iterator[OutcomeMessage]:
    after = 0
    while page := client.unread(after):
        yield from page
        after = page[-1].number


def _report_missing(ids: Sequence[str], found: Mapping[str, object], client: str) -> int:
    missing = [op_id for op_id in ids if op_id not in found]
    return report_missing(missing, f"client {client!r} has no unread outcome of it")


def _facts(outcome: OutcomeMessage) -> dict[str, str]:
    return {
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
