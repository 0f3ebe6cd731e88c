"""The service: delayed operations over ZeroMQ, kept on disk; needs the extra `service`."""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from purgatory.service.client.async_client import AsyncClient, AsyncServiceFuture
    from purgatory.service.client.client import Client
    from purgatory.service.client.futures import ServiceFuture, SubmissionReceipt
    from purgatory.service.client.jobs.job_handle import AsyncJobHandle, JobHandle
    from purgatory.service.client.leases.async_lease_handle import AsyncLeaseHandle
    from purgatory.service.client.leases.lease_handle import LeaseHandle
    from purgatory.service.client.repeats.repeat_handle import AsyncRepeatHandle, RepeatHandle
    from purgatory.service.config import Config
    from purgatory.service.daemon import ServiceDaemon
    from purgatory.service.errors import (
        BadAddress,
        ClientBusy,
        ConfigError,
        HelloRequired,
        JobCancelled,
        JobFailed,
        JobUnknown,
        KeysError,
        LeaseTimeout,
        Malformed,
        NotAllowed,
        OperationFailed,
        OperationIdTaken,
        Refused,
        RequestAbandoned,
        RequestFailed,
        RequestTimeout,
        ServerBusy,
        ServerClosing,
        ServerError,
        ServiceError,
        Standby,
        StoreFailed,
        TimeLimit,
        TimeoutTooLong,
        TooLarge,
        TooManyClients,
        TooManyHeld,
        TooManyItems,
        TooManyKeys,
        TooManyLeases,
        TooManyPending,
        TooManyReads,
        TooManyRemembered,
        TooManyRepeats,
        TooManySessions,
        TooMuchMemory,
        Unavailable,
        WorkerStuck,
        WrongVersion,
    )
    from purgatory.service.job_messages import JobPage, JobStatus, KindLimit
    from purgatory.service.protocol import OperationStatus, OutcomeMessage
    from purgatory.service.server.journal.journal_sink import JournalSink
    from purgatory.service.server.server import Server
    from purgatory.service.server.stats import ServerStats
    from purgatory.service.worker.handlers import Job
    from purgatory.service.worker.worker import Worker

__all__ = [
    "AsyncClient",
    "AsyncJobHandle",
    "AsyncLeaseHandle",
    "AsyncRepeatHandle",
    "AsyncServiceFuture",
    "BadAddress",
    "Client",
    "ClientBusy",
    "Config",
    "ConfigError",
    "HelloRequired",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "JobPage",
    "JobStatus",
    "JobUnknown",
    "JournalSink",
    "KeysError",
    "KindLimit",
    "LeaseHandle",
    "LeaseTimeout",
    "Malformed",
    "NotAllowed",
    "OperationFailed",
    "OperationIdTaken",
    "OperationStatus",
    "OutcomeMessage",
    "Refused",
    "RepeatHandle",
    "RequestAbandoned",
    "RequestFailed",
    "RequestTimeout",
    "Server",
    "ServerBusy",
    "ServerClosing",
    "ServerError",
    "ServerStats",
    "ServiceDaemon",
    "ServiceError",
    "ServiceFuture",
    "Standby",
    "StoreFailed",
    "SubmissionReceipt",
    "TimeLimit",
    "TimeoutTooLong",
    "TooLarge",
    "TooManyClients",
    "TooManyHeld",
    "TooManyItems",
    "TooManyKeys",
    "TooManyLeases",
    "TooManyPending",
    "TooManyReads",
    "TooManyRemembered",
    "TooManyRepeats",
    "TooManySessions",
    "TooMuchMemory",
    "Unavailable",
    "Worker",
    "WorkerStuck",
    "WrongVersion",
]

_LAZY_EXPORTS: Final = {
    "client.async_client": ("AsyncClient", "AsyncServiceFuture"),
    "client.jobs.job_handle": ("AsyncJobHandle", "JobHandle"),
    "client.leases.async_lease_handle": ("AsyncLeaseHandle",),
    "client.leases.lease_handle": ("LeaseHandle",),
    "client.repeats.repeat_handle": ("AsyncRepeatHandle", "RepeatHandle"),
    "client.futures": ("ServiceFuture", "SubmissionReceipt"),
    "client.client": ("Client",),
    "config": ("Config",),
    "daemon": ("ServiceDaemon",),
    "job_messages": ("JobPage", "JobStatus", "KindLimit"),
    "protocol": ("OperationStatus", "OutcomeMessage"),
    "server.server": ("Server",),
    "server.journal.journal_sink": ("JournalSink",),
    "server.stats": ("ServerStats",),
    "worker.handlers": ("Job",),
    "worker.worker": ("Worker",),
}
_MODULE_OF: Final = {name: module for module, names in _LAZY_EXPORTS.items() for name in names}


if not TYPE_CHECKING:  # a misspelt name is an error to type checkers

    def __getattr__(name: str) -> object:
        # At first use: settings and errors need no extra, clients no server, and servers no client.
        if name in __all__:
            module = importlib.import_module(f"{__name__}.{_MODULE_OF.get(name, 'errors')}")
            return getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
