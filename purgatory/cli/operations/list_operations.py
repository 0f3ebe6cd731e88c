"""`purgatory list`: see the operations of a server. Called from the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.connection import add_connection_options, connected
from purgatory.cli.extras import import_extra
from purgatory.cli.terminal.values import json_text, moment, optional_text, result_text

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.protocol import OperationStatus

_STATES: Final = ("pending", "completed", "failed", "expired", "cancelled")
_LIMIT: Final = 100
_HEAD: Final = (
    "operation",
    "state",
    "kind",
    "client",
    "keys",
    "due, or ended",
    "payload, or result",
)

_DESCRIPTION: Final = """\
List operations of a server in order of submission: those that wait, and those that have ended for
as long as the server knows them. A key that may not administer sees those of its client only."""

_EXAMPLES: Final = """\
examples:
  purgatory list --state pending --kind order
  purgatory list --waits-for paid:17
  purgatory list --client shop --limit 1000000 --json > operations.jsonl

exit codes: 0 done, 2 an error"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "list",
        help="list the operations of a server",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kind", help="only those of this kind")
    parser.add_argument("--waits-for", metavar="KEY", help="only those that wait for this key")
    parser.add_argument("--client", help="only those of this client")
    parser.add_argument("--state", choices=_STATES, help="only those in this state")
    parser.add_argument(
        "--limit", type=int, default=_LIMIT, metavar="N", help=f"at most so many ({_LIMIT})"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    parser.set_defaults(run=run)
    add_connection_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the operations; as JSON, each as it comes."""
    with connected(arguments) as client:
        found = _found(client, arguments)
        if arguments.json:
            for one in found:
                print(json_text({name: getattr(one, name) for name in one.__struct_fields__}))
            return 0
        rows = [_row(one) for one in found]
    if rows:
        import_extra("purgatory.cli.terminal.top_screen", "service").print_table(_HEAD, rows)
    more = "; there may be more: --limit" if len(rows) == arguments.limit else ""
    print(f"{len(rows):,} operations{more}")
    return 0


def _found(client: Client, arguments: argparse.Namespace) -> Iterator[OperationStatus]:
    return client.list(
        kind=arguments.kind,
        key=arguments.waits_for,
        client=arguments.client,
        state=arguments.state,
        limit=arguments.limit,
    )


def _row(status: OperationStatus) -> tuple[str, ...]:
    has_ended = status.at_ms is not None
    value = result_text(status.state, status.result) if has_ended else optional_text(status.payload)
    return (
        status.op_id,
        status.state,
        status.kind,
        status.client,
        ", ".join(status.keys),
        moment(status.deadline_ms if status.at_ms is None else status.at_ms),
        value,
    )
