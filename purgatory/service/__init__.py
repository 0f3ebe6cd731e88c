"""The service: delayed operations over ZeroMQ, kept on disk.

The front door of the package; needs the extra `service` (pyzmq, msgspec).

Inside: `protocol` (the messages, docs/protocol.md), `config` and `errors`; `store` (the database),
`auth` (keys and allow list), `server` (network thread and store thread), `client`, `http` (live
page, metrics, health), `worker` (runs jobs); `daemon` runs a server with all of these, `systemd`
reports to the service manager.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from purgatory.service.client.async_client import AsyncClient, AsyncServiceFuture
    from purgatory.service.client.client import Client
    from purgatory.service.client.futures import ServiceFuture, SubmissionReceipt
    from purgatory.service.config import Config
    from purgatory.service.daemon import ServiceDaemon
    from purgatory.service.errors import (
        Closing,
        ConfigError,
        HelloRequired,
        KeysError,
        Malformed,
        NoHello,
        NotAllowed,
        OperationFailed,
        OperationIdTaken,
        Refused,
        RequestTimeout,
        ServerClosing,
        ServerError,
        ServiceError,
        StoreFailed,
        Taken,
        TimeoutTooLong,
        TooLarge,
        TooLong,
        TooManyClients,
        TooManyHeld,
        TooManyItems,
        TooManyKeys,
        TooManyPending,
        TooManyReads,
        TooMuchMemory,
        Unavailable,
        WrongVersion,
    )
    from purgatory.service.job_messages import DeadJob
    from purgatory.service.protocol import OperationStatus, OutcomeMessage
    from purgatory.service.server.journal.journal_sink import JournalSink
    from purgatory.service.server.server import Server
    from purgatory.service.server.stats import ServerStats
    from purgatory.service.worker.job import Job
    from purgatory.service.worker.worker import Worker

    Outcome = OutcomeMessage
    Sink = JournalSink
    State = OperationStatus

__all__ = [
    "AsyncClient",
    "AsyncServiceFuture",
    "Client",
    "Closing",
    "Config",
    "ConfigError",
    "DeadJob",
    "HelloRequired",
    "Job",
    "JournalSink",
    "KeysError",
    "Malformed",
    "NoHello",
    "NotAllowed",
    "OperationFailed",
    "OperationIdTaken",
    "OperationStatus",
    "Outcome",
    "OutcomeMessage",
    "Refused",
    "RequestTimeout",
    "Server",
    "ServerClosing",
    "ServerError",
    "ServerStats",
    "ServiceDaemon",
    "ServiceError",
    "ServiceFuture",
    "Sink",
    "State",
    "StoreFailed",
    "SubmissionReceipt",
    "Taken",
    "TimeoutTooLong",
    "TooLarge",
    "TooLong",
    "TooManyClients",
    "TooManyHeld",
    "TooManyItems",
    "TooManyKeys",
    "TooManyPending",
    "TooManyReads",
    "TooMuchMemory",
    "Unavailable",
    "Worker",
    "WrongVersion",
]

_LAZY_EXPORTS: Final = {
    "client.async_client": ("AsyncClient", "AsyncServiceFuture"),
    "client.futures": ("ServiceFuture", "SubmissionReceipt"),
    "client.client": ("Client",),
    "config": ("Config",),
    "daemon": ("ServiceDaemon",),
    "job_messages": ("DeadJob",),
    "protocol": ("OperationStatus", "OutcomeMessage"),
    "server.server": ("Server",),
    "server.journal.journal_sink": ("JournalSink",),
    "server.stats": ("ServerStats",),
    "worker.job": ("Job",),
    "worker.worker": ("Worker",),
}
_MODULE_OF: Final = {name: module for module, names in _LAZY_EXPORTS.items() for name in names}
# Names of earlier versions; those of errors are in `errors` itself.
_ALIASES: Final = {
    "Outcome": "OutcomeMessage",
    "Sink": "JournalSink",
    "State": "OperationStatus",
}


def __getattr__(name: str) -> object:
    # Imported at first use: settings and errors need no extra, and neither the client nor the
    # server needs the other's modules.
    if name in __all__:
        target = _ALIASES.get(name, name)
        module = importlib.import_module(f"{__name__}.{_MODULE_OF.get(target, 'errors')}")
        return getattr(module, target)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
