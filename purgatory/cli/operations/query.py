"""`purgatory query`: ask a server about operations. Called from the main thread."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from purgatory.cli.connection import BAD_NEWS, add_command, connected
from purgatory.cli.extras import import_extra
from purgatory.cli.terminal.values import json_text, moment, optional_text, result_text

if TYPE_CHECKING:
    from purgatory.service.protocol import OperationStatus


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = add_command(subparsers, "query", run, "ask a server about operations")
    parser.add_argument("ids", metavar="ID", nargs="+")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")


def run(arguments: argparse.Namespace) -> int:
    """Print what the server knows of each operation."""
    with connected(arguments) as client:
        states = [client.query(name) for name in arguments.ids]
    if arguments.json:
        for state in states:
            print(json_text({name: getattr(state, name) for name in state.__struct_fields__}))
    else:
        import_extra("purgatory.cli.terminal.top_screen", "service").print_facts(
            [_rows(state) for state in states]
        )
    return BAD_NEWS if any(state.state == "unknown" for state in states) else 0


def _rows(state: OperationStatus) -> list[tuple[str, str]]:
    """Return names and texts of what is known of an operation; empty ones are left out."""
    done = set(state.keys_done)
    facts = {
        "operation": state.op_id,
        "state": state.state,
        "kind": state.kind,
        "client": state.client,
        "keys": ", ".join(f"{key} (done)" if key in done else key for key in state.keys),
    }
    if state.state != "unknown":
        facts["need"] = f"{state.need} of {len(set(state.keys))}"
        facts["submitted"] = moment(state.submitted_ms)
        facts["deadline"] = moment(state.deadline_ms)
    if state.at_ms is not None:
        facts["ended"] = moment(state.at_ms)
    facts["by key"] = state.by_key or ""
    facts["result"] = result_text(state.state, state.result)
    facts["payload"] = optional_text(state.payload)
    if state.left_out:
        facts["left out"] = f"{state.left_out:,} bytes of result and payload"
    return [(name, fact) for name, fact in facts.items() if fact]
