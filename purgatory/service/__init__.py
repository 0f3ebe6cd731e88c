"""The service: delayed operations over ZeroMQ, kept on disk.

The front door of the package; needs the extra ``service`` (pyzmq, msgspec).

Layout: ``protocol`` (what is said, docs/protocol.md), ``config`` and ``errors``; the server from
the inside out: ``clock``, ``operation``, ``room`` (what waits, and every decision), ``keeper`` (the
store thread: decide, commit, answer), ``network`` (the thread that owns the socket), ``server``;
``sink`` (where a journal is plugged in); ``link``, ``client``, ``aclient`` (the other side).
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from purgatory.service.client.async_client import AsyncClient
    from purgatory.service.client.client import Client
    from purgatory.service.client.futures import ServiceFuture
    from purgatory.service.config import Config
    from purgatory.service.errors import (
        Closing,
        ConfigError,
        Malformed,
        NoHello,
        Refused,
        RequestTimeout,
        ServerError,
        ServiceError,
        StoreFailed,
        Taken,
        TooLarge,
        TooLong,
        TooManyClients,
        TooManyKeys,
        TooManyPending,
        Unavailable,
        WrongVersion,
    )
    from purgatory.service.protocol import Outcome, State
    from purgatory.service.server.journal_sink import Sink
    from purgatory.service.server.server import Server
    from purgatory.service.server.stats import ServerStats

__all__ = [
    "AsyncClient",
    "Client",
    "Closing",
    "Config",
    "ConfigError",
    "Malformed",
    "NoHello",
    "Outcome",
    "Refused",
    "RequestTimeout",
    "Server",
    "ServerError",
    "ServerStats",
    "ServiceError",
    "ServiceFuture",
    "Sink",
    "State",
    "StoreFailed",
    "Taken",
    "TooLarge",
    "TooLong",
    "TooManyClients",
    "TooManyKeys",
    "TooManyPending",
    "Unavailable",
    "WrongVersion",
]

_HOMES: Final = {
    "client.async_client": ("AsyncClient",),
    "client.futures": ("ServiceFuture",),
    "client.client": ("Client",),
    "config": ("Config",),
    "protocol": ("Outcome", "State"),
    "server.server": ("Server",),
    "server.journal_sink": ("Sink",),
    "server.stats": ("ServerStats",),
}
_HOME: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    # When first used: settings and errors can be had without the extra, and each side of the
    # service without the other.
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, 'errors')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
