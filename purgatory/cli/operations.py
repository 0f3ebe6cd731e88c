"""Commands for operations at a server."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.connection import BAD_NEWS, add_connection_options, answers, connected
from purgatory.cli.options import (
    COUNT,
    DURATION,
    Distinct,
    SubParsers,
    add_command,
    add_json_option,
    add_list_options,
    import_extra,
)
from purgatory.cli.output import (
    age,
    list_tail,
    moment,
    optional_text,
    print_facts,
    print_json,
    print_records,
    report_done,
    result_text,
    say,
    short,
    value_text,
)
from purgatory.core.operations.operation_state import Outcome
from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.printable import counted
from purgatory.service.errors import ConfigError, OperationFailed

if TYPE_CHECKING:
    from purgatory.service.client.futures import SubmissionReceipt
    from purgatory.service.protocol import OperationStatus

_STATES: Final = ("pending", *(outcome.value for outcome in Outcome))
_ENDED: Final = "it has ended, or is not known"
_ORDERS: Final = ("oldest", "newest")
_HEAD: Final = (
    "operation",
    "state",
    "kind",
    "client",
    "keys",
    "due, or ended",
    "payload, or result",
)
_SHORT_HEAD: Final = ("operation", "state", "kind", "keys", "due, or ended", "payload, or result")
_LIST: Final = """\
List operations of a server in order of submission, the oldest or the newest first: pending
operations, and ended ones for ten minutes after their outcomes were acknowledged, of many, also
ended jobs, the last 10,000. A key without the right administer lists its client's alone."""

_LIST_EXAMPLES: Final = """\
examples:
  purgatory list --state pending --kind order
  purgatory list --waits-for paid:17
  purgatory list --order newest --limit 20
  purgatory list --client shop --limit 1000000 --json > operations.jsonl

exit codes: 0 done, 2 an error"""


def add_parsers(subparsers: SubParsers) -> None:
    """Add the commands."""
    _add_defer(subparsers)
    complete = _add(subparsers, "complete", _complete, "complete keys at a server", "KEY")
    complete.add_argument("--value", metavar="VALUE", help="JSON, or else a text")
    complete.add_argument(
        "--limit", help="for at most N operations, the longest waiting first", **COUNT
    )
    complete.add_argument(
        "--hold",
        default=0.0,
        help="count for operations submitted within that time, too (60, 5m); then exit code 0",
        **DURATION,
    )
    fail = _add(subparsers, "fail", _fail, "fail keys at a server", "KEY")
    fail.add_argument(
        "--error", default="Failed", metavar="NAME", help="type of the error (Failed)"
    )
    fail.add_argument("--message", default="", metavar="TEXT", help="what went wrong")
    extend = _add(subparsers, "extend", _extend, "give operations at a server more time", "ID")
    extend.add_argument(
        "--in",
        dest="timeout",
        required=True,
        help="when they expire, from now on: seconds, 30m, 1h30m, PT30M, P1DT2H",
        **DURATION,
    )
    _add(subparsers, "cancel", _cancel, "cancel operations at a server", "ID")
    add_json_option(_add(subparsers, "query", _query, "show the states of operations", "ID"))
    _add_list(subparsers)


def _add(
    subparsers: SubParsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    of: str,
) -> argparse.ArgumentParser:
    parser = add_command(subparsers, name, run, summary, f"{summary.capitalize()}.")
    add_connection_options(parser)
    text = {"KEY": "watch key", "ID": "of an operation"}[of]
    parser.add_argument(f"{of.lower()}s", metavar=of, nargs="+", action=Distinct, help=text)
    return parser


def _add_defer(subparsers: SubParsers) -> None:
    summary = "submit an operation to a server"
    parser = _add(subparsers, "defer", _defer, summary, "KEY")
    parser.add_argument(
        "--in",
        dest="timeout",
        default=30.0,
        help="when it expires: seconds, 30m, 1h30m, PT30M, P1DT2H (default: 30)",
        **DURATION,
    )
    parser.add_argument("--need", default=1, help="how many of the keys must be completed", **COUNT)
    parser.add_argument("--kind", default="", help="a name for filters and statistics")
    parser.add_argument("--id", metavar="ID", help="its id; a second submission changes nothing")
    parser.add_argument(
        "--unique-for", help="how long the id is remembered after the end", **DURATION
    )
    parser.add_argument("--payload", metavar="VALUE", help="kept with it: JSON, or else a text")
    parser.add_argument(
        "--wait",
        action="store_true",
        help="until it ends; prints the value, or on stderr why it did not complete (exit code 1)",
    )


def _add_list(subparsers: SubParsers) -> None:
    summary = "list the operations of a server"
    parser = add_command(subparsers, "list", _list, summary, _LIST, _LIST_EXAMPLES)
    parser.add_argument("--kind", help="of this kind only")
    parser.add_argument("--waits-for", metavar="KEY", help="waiting for this key only")
    parser.add_argument("--client", help="of this client only")
    parser.add_argument("--state", choices=_STATES, help="in this state only")
    parser.add_argument(
        "--order", choices=_ORDERS, default="oldest", help="which come first (oldest)"
    )
    add_list_options(parser)
    add_connection_options(parser)


def _defer(arguments: argparse.Namespace) -> int:
    options: dict[str, Any] = {
        "timeout": arguments.timeout,
        "need": arguments.need,
        "kind": arguments.kind,
        "op_id": arguments.id,
        "unique_for": arguments.unique_for,
        "payload": parsed_value("--payload", arguments.payload),
    }
    with connected(arguments) as client:
        if not arguments.wait:
            # Not by `defer`: its future would acknowledge the outcome, unseen.
            _print_id(client.submit(*arguments.keys, **options), client.name)
            return 0
        future = client.defer(*arguments.keys, **options)
        client.flush()  # at most for `--patience`
        try:
            say(value_text(future.result()))
        except (OperationExpired, OperationCancelled, OperationFailed) as end:
            say(str(end), file=sys.stderr)
            return BAD_NEWS
    return 0


def _print_id(receipt: SubmissionReceipt, client: str) -> None:
    say(receipt.op_id)
    if receipt.state != "pending":
        say(f"the server knows it, as {receipt.state}", file=sys.stderr)
    elif sys.stderr is not None and sys.stderr.isatty():
        say(
            f"its outcome is kept for {client!r}: purgatory outcomes show {receipt.op_id}",
            file=sys.stderr,
        )


def parsed_value(flag: str, text: str | None) -> Any:
    """Parse a value of the command line, if any: JSON, or else a text.

    Raises ConfigError if MessagePack cannot hold the value.
    """
    if text is None:
        return None
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
    except ValueError:
        value = text
    except RecursionError as error:
        raise ConfigError(f"{flag} {text[:50]}: it is nested too deeply") from error
    try:
        import_extra("purgatory.service.encoding", "service").pack(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{flag} {text[:50]}: {error}") from error
    return value


def _number(text: str) -> float:
    """Parse a number. Raises ValueError for NaN and infinity, which JSON does not have."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _complete(arguments: argparse.Namespace) -> int:
    value = parsed_value("--value", arguments.value)
    options = {"limit": arguments.limit, "hold": arguments.hold}
    with connected(arguments) as client:
        counts = answers(client, client.complete_later, arguments.keys, value, **options)
    print(f"{counted(sum(counts), 'operation')} completed")
    return 0 if any(counts) or arguments.hold else BAD_NEWS


def _fail(arguments: argparse.Namespace) -> int:
    error = OperationFailed(arguments.error, arguments.message)
    with connected(arguments) as client:
        counts = answers(client, client.fail_later, arguments.keys, error)
    print(f"{counted(sum(counts), 'operation')} failed")
    return 0 if any(counts) else BAD_NEWS


def _extend(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        done = answers(client, client.extend_later, arguments.ids, arguments.timeout)
    return report_done("operation", arguments.ids, done, "extended", _ENDED)


def _cancel(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        done = answers(client, client.cancel_later, arguments.ids)
    return report_done("operation", arguments.ids, done, "cancelled", _ENDED)


def _query(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = answers(client, client.query_later, arguments.ids)
    if arguments.json:
        print_json(found)
    else:
        print_facts(_facts(status) for status in found)
    return BAD_NEWS if any(status.state == "unknown" for status in found) else 0


def _facts(status: OperationStatus) -> dict[str, str]:
    done = set(status.keys_done)
    facts = {
        "operation": status.op_id,
        "state": status.state,
        "kind": status.kind,
        "client": status.client,
        "keys": ", ".join(f"{key} (done)" if key in done else key for key in status.keys),
    }
    if status.state != "unknown":
        facts["need"] = f"{status.need} of {len(set(status.keys))}"
        facts["submitted"] = moment(status.submitted_ms)
        facts["deadline"] = moment(status.deadline_ms)
    if status.at_ms is not None:
        facts["ended"] = moment(status.at_ms)
    facts["by key"] = status.by_key or ""
    facts["result"] = result_text(status.state, status.result)
    facts["payload"] = optional_text(status.payload)
    if status.left_out:
        facts["left out"] = f"{status.left_out:,} bytes of result and payload"
    return facts


def _list(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        found = client.list(
            kind=arguments.kind,
            key=arguments.waits_for,
            client=arguments.client,
            state=arguments.state,
            order=arguments.order,
            limit=arguments.limit,
        )
        wide = arguments.wide
        head, row = (_HEAD, _row) if wide else (_SHORT_HEAD, _short_row)
        tail = list_tail("operation", arguments.limit)
        print_records(found, head, row, tail, as_json=arguments.json, is_wide=wide)
    return 0


def _time_and_value(status: OperationStatus) -> tuple[int, str]:
    if status.at_ms is None:
        return status.deadline_ms, optional_text(status.payload)
    return status.at_ms, result_text(status.state, status.result)


def _short_row(status: OperationStatus) -> tuple[str, ...]:
    time_ms, value = _time_and_value(status)
    return (
        *(short(status.op_id), status.state, short(status.kind, 10)),
        *(short(", ".join(status.keys), 14), age(time_ms), value),
    )


def _row(status: OperationStatus) -> tuple[str, ...]:
    time_ms, value = _time_and_value(status)
    return (
        *(status.op_id, status.state, status.kind, status.client),
        *(", ".join(status.keys), moment(time_ms), value),
    )
