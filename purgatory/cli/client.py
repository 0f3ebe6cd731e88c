"""``purgatory defer``, ``complete``, ``cancel``, ``query``, ``stats``: a server, from a terminal.

Called by `purgatory.cli`, from the main thread. Imports nothing of the extra before it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.service_extra import implementation
from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.service.errors import ConfigError

if TYPE_CHECKING:
    from purgatory.service.client.client import Client
    from purgatory.service.protocol import OperationState

ADDRESS: Final = "tcp://127.0.0.1:7411"
# What is answered with bad news: expired, nobody waited, not known.
BAD_NEWS: Final = 1


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the commands."""
    defer = _add(subparsers, "defer", _defer, "have an operation wait at a server")
    defer.add_argument("keys", metavar="KEY", nargs="+", help="what it waits for")
    defer.add_argument(
        "--in",
        dest="timeout",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="when it expires (default: 30)",
    )
    defer.add_argument("--need", type=int, default=1, metavar="N", help="how many of the keys")
    defer.add_argument("--kind", default="", help="a word for the statistics")
    defer.add_argument("--id", metavar="ID", help="its id; the same one twice is one operation")
    defer.add_argument("--payload", metavar="VALUE", help="kept with it: JSON, or else a text")
    defer.add_argument(
        "--wait",
        action="store_true",
        help="until it ends; prints the value, exit code 1 if it does not complete",
    )
    complete = _add(subparsers, "complete", _complete, "complete keys at a server")
    complete.add_argument("keys", metavar="KEY", nargs="+")
    complete.add_argument("--value", metavar="VALUE", help="JSON, or else a text")
    cancel = _add(subparsers, "cancel", _cancel, "cancel operations at a server")
    cancel.add_argument("ids", metavar="ID", nargs="+")
    query = _add(subparsers, "query", _query, "ask a server about operations")
    query.add_argument("ids", metavar="ID", nargs="+")
    query.add_argument("--json", action="store_true", help="a line of JSON for each")
    stats = _add(subparsers, "stats", _stats, "show the figures of a server")
    stats.add_argument("--json", action="store_true", help="as a line of JSON")


def _add(
    subparsers: argparse._SubParsersAction[Any],
    name: str,
    run: Callable[[argparse.Namespace], int],
    words: str,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=words, description=f"{words.capitalize()}."
    )
    parser.set_defaults(run=run)
    add_connection_options(parser)
    return parser


def add_connection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which server, and with which keys."""
    group = parser.add_argument_group("connection (also as PURGATORY_ADDRESS and so on)")
    group.add_argument("--address", help=f"of the server (default: {ADDRESS})")
    group.add_argument("--name", help="whose operations these are (default: cli)")
    group.add_argument("--key", metavar="FILE", help="key pair of this client: NAME.key_secret")
    group.add_argument("--server-key", metavar="KEY", help="the server's public key, or its file")
    group.add_argument(
        "--patience", metavar="SECONDS", help="how long to wait for an answer (default: 10)"
    )


@contextlib.contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client as the options and the environment say. Raises ConfigError, KeysError."""
    client = _client(arguments)
    try:
        yield client
    except BaseException:
        client.close(0)  # who gave up does not wait once more
        raise
    client.close()


def _client(arguments: argparse.Namespace) -> Client:

    def setting(name: str, default: str = "") -> str:
        given = getattr(arguments, name)
        return str(given or os.environ.get(f"PURGATORY_{name.upper()}") or default)

    options: dict[str, Any] = {"name": setting("name", "cli")}
    options["timeout"] = _seconds(setting("patience", "10"))
    own, server = setting("key"), setting("server_key")
    if bool(own) != bool(server):
        raise ConfigError("--key and --server-key come together: both, or neither")
    if own:
        keys = implementation("purgatory.service.auth.key_store")
        pair = keys.read_pair(Path(own))
        options |= {"server_key": keys.read_public(server)}
        options |= {"public_key": pair.public, "secret_key": pair.secret}
    client: Client = implementation("purgatory.service.client.client").Client(
        setting("address", ADDRESS), **options
    )
    return client


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ConfigError(f"--patience {text}: expected a number of seconds above 0")
    return seconds


def _defer(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        try:
            future = client.defer(
                *arguments.keys,
                timeout=arguments.timeout,
                need=arguments.need,
                kind=arguments.kind,
                op_id=arguments.id,
                payload=_value(arguments.payload),
            )
        except ValueError as error:  # says which argument, and what it may be
            raise ConfigError(str(error)) from error
        client.flush()
        try:
            if arguments.wait:
                print(_shown(future.result()))
            else:
                if future.done():  # it was refused, or has ended already
                    future.result()
                print(future.op_id)
        except (OperationExpired, OperationCancelled) as end:
            print(end)
            return BAD_NEWS
    return 0


def _complete(arguments: argparse.Namespace) -> int:
    value = _value(arguments.value)
    with connected(arguments) as client:
        answers = [client.complete_later(key, value) for key in arguments.keys]
        client.flush()
        count = sum(answer.result() for answer in answers)
    print(f"{count:,} operations completed")
    return 0 if count else BAD_NEWS


def _cancel(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        done = [client.cancel(name) for name in arguments.ids]
    print(f"{sum(done):,} operations cancelled")
    return 0 if all(done) else BAD_NEWS


def _query(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        states = [client.query(name) for name in arguments.ids]
    if arguments.json:
        for state in states:
            print(json.dumps(_facts(state)))
    else:
        implementation("purgatory.cli.top_screen").print_facts([_rows(state) for state in states])
    return BAD_NEWS if any(state.state == "unknown" for state in states) else 0


def _stats(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        figures = client.stats()
    if arguments.json:
        print(json.dumps(figures))
    else:
        rows = [(name.replace("_", " "), f"{figure:,.10g}") for name, figure in figures.items()]
        implementation("purgatory.cli.top_screen").print_facts([rows], right=True)
    return 0


def _value(text: str | None) -> Any:
    """What a user gave: JSON if it is, else the text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=repr)


def _facts(state: OperationState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__struct_fields__}


def _rows(state: OperationState) -> list[tuple[str, str]]:
    """What is known of an operation, a fact a line; what it has not is left out."""
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
        facts["submitted"] = _time(state.submitted_ms)
        facts["deadline"] = _time(state.deadline_ms)
    if state.at_ms is not None:
        facts["ended"] = _time(state.at_ms)
    facts["by key"] = state.by_key or ""
    return [(name, fact) for name, fact in facts.items() if fact]


def _time(unix_ms: int) -> str:
    try:
        local = datetime.fromtimestamp(unix_ms / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # no calendar reaches it
        return f"{unix_ms} ms"
    return local.isoformat(" ", "milliseconds")
