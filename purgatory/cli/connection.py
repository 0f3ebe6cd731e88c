"""The connection of a command to a server."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import math
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from purgatory.cli.options import DURATION, from_environment, import_extra, seconds
from purgatory.service.errors import ConfigError
from purgatory.service.portions import in_portions

if TYPE_CHECKING:
    from purgatory.service.client.client import Client

ADDRESS: Final = "tcp://127.0.0.1:7411"
#: Exit code of a negative answer: expired, nothing completed, unknown.
BAD_NEWS: Final = 1
# Calls made at a time.
_PORTION: Final = 500


def add_connection_options(parser: argparse.ArgumentParser, *, named: bool = True) -> None:
    """Add the options for a server's address and keys; `named`: and the client's name."""
    group = parser.add_argument_group("connection (also as PURGATORY_ADDRESS and so on)")
    group.add_argument(
        "--address", help=f"of the server, or of several, with commas (default: {ADDRESS})"
    )
    if named:
        group.add_argument(
            "--name", help="client that the operations belong to (default: that of --key, or you)"
        )
    group.add_argument("--key", metavar="FILE", help="key pair of this client: NAME.key_secret")
    group.add_argument("--server-key", metavar="KEY", help="the server's public key, or its file")
    group.add_argument(
        "--patience",
        metavar=DURATION["metavar"],
        help="how long to wait for an answer (default: 10)",
    )


@contextlib.contextmanager
def connected(arguments: argparse.Namespace) -> Iterator[Client]:
    """Connect a client by the options and the environment.

    Raises KeysError, and ConfigError, also for a bad argument in the block.
    """
    client = _open(*connection(arguments))
    try:
        yield client
    except BaseException as error:
        client.close(0)  # the user does not wait again
        if isinstance(error, ValueError):  # names the argument and the values expected
            raise ConfigError(str(error)) from error
        raise
    client.close()


def answers(
    client: Client, call: Callable[..., Any], names: Iterable[str], *more: Any, **options: Any
) -> list[Any]:
    """Make a call for each name, and return the answers in order.

    Raises RequestTimeout if none comes for `--patience`.
    """
    found: list[Any] = []
    for some in in_portions(names, _PORTION):
        replies = [call(name, *more, **options) for name in some]
        client.flush()
        found += [reply.result() for reply in replies]
    return found


def connection(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """Return the address and the options of a client. Raises ConfigError, KeysError."""

    def setting(name: str, default: str = "") -> str:
        return str(getattr(arguments, name, None) or from_environment(name, default))

    own, server = setting("key"), setting("server_key")
    options: dict[str, Any] = {"name": setting("name", Path(own).stem if own else person())}
    options["timeout"] = _patience(setting("patience", "10"))
    if bool(own) != bool(server):
        raise ConfigError("--key and --server-key come together: both, or neither")
    if own:
        keys = import_extra("purgatory.service.auth.key_store", "service")
        pair = keys.read_pair(Path(own))
        options |= {"server_key": keys.read_public(server)}
        options |= {"public_key": pair.public, "secret_key": pair.secret}
    return setting("address", ADDRESS), options


def check_connection(address: str, options: dict[str, Any]) -> None:
    """Raise ConfigError unless a client can be made; needs no server."""
    _open(address, options).close(0)


def _open(address: str, options: dict[str, Any]) -> Client:
    make_client = import_extra("purgatory.service.client.client", "service").Client
    try:
        client: Client = make_client(address, **options)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return client


def person() -> str:
    """Return a client name of this user and host: unread outcomes stay separate."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no name, as in a container
        user = str(os.getuid())
    return f"cli-{user}@{socket.gethostname()}"


def _patience(text: str) -> float:
    try:
        patience = seconds(text)
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"--patience {text}: {error}") from error
    if not 0 < patience < math.inf:
        raise ConfigError(f"--patience {text}: expected a duration above 0")
    return patience
