"""Delayed operations: they wait for watch keys until a deadline, and end exactly once.

`aio`, `service`, `testing`, `trace`, `replay` and `spark` have public names of their own. Each room
imports only from lower rooms:

    cli                 the command `purgatory`
    spark               the same semantics as Spark jobs and streams, and reports
    service             a purgatory for other processes, kept on disk: server, client, store
    replay              recorded operations, sent through a purgatory
    aio                 a purgatory on an event loop
    journal             how operations ended, written down
    trace               files of operations and events
    cron                times of cron expressions in time zones
    core                watch lists, submission, completion, and `Purgatory` itself
    core.operations     an operation: its state, how it ends, its callbacks, its future
    bus                 the loop of a purgatory, its commands and its worker threads
    metrics             what Prometheus sees
    registry, errors, foreign_packages

`timingwheel` (when) and `mq` (messages between threads) are packages of their own.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Final

import purgatory.foreign_packages  # noqa: F401 - first: it refuses what cannot work
from purgatory.core.operations.future import DeferredFuture
from purgatory.core.operations.keyed import KeyedOperation
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import Outcome
from purgatory.core.outcome_recorder import Journal
from purgatory.core.purgatory import Purgatory
from purgatory.errors import (
    HeldFull,
    NotReplicated,
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryForked,
    StoreError,
    StoreFenced,
    WrongEventLoop,
)
from purgatory.registry import PurgatoryStats

if TYPE_CHECKING:
    from purgatory import metrics
    from purgatory.cron.preview import next_times
    from purgatory.journal.files import JournalError
    from purgatory.journal.journals import Ended, MailboxJournal, ParquetJournal
    from purgatory.service import AsyncClient, Client, Worker

__all__ = [
    "AsyncClient",
    "Client",
    "DeferredFuture",
    "DelayedOperation",
    "Ended",
    "HeldFull",
    "Journal",
    "JournalError",
    "KeyedOperation",
    "MailboxJournal",
    "NotReplicated",
    "OperationCancelled",
    "OperationExpired",
    "Outcome",
    "ParquetJournal",
    "Purgatory",
    "PurgatoryClosed",
    "PurgatoryError",
    "PurgatoryForked",
    "PurgatoryStats",
    "StoreError",
    "StoreFenced",
    "Worker",
    "WrongEventLoop",
    "metrics",
    "next_times",
]

# What is imported at first use: a journal takes a quarter of the time of an import, the others need
# an extra.
_JOURNAL: Final = {
    "Ended": "purgatory.journal.journals",
    "JournalError": "purgatory.journal.files",
    "MailboxJournal": "purgatory.journal.journals",
    "ParquetJournal": "purgatory.journal.journals",
}
_SERVICE: Final = {
    "AsyncClient": "purgatory.service",
    "Client": "purgatory.service",
    "Worker": "purgatory.service",
    "next_times": "purgatory.cron.preview",
}

if not TYPE_CHECKING and importlib.util.find_spec("msgspec") is None:
    # `from purgatory import *` takes what the installed packages allow.
    __all__ = [name for name in __all__ if name not in _SERVICE]


if not TYPE_CHECKING:  # a misspelt name is an error to type checkers

    def __getattr__(name: str) -> object:
        if name == "metrics":
            return importlib.import_module("purgatory.metrics")
        if name in _JOURNAL:
            return getattr(importlib.import_module(_JOURNAL[name]), name)
        if name in _SERVICE:
            try:
                return getattr(importlib.import_module(_SERVICE[name]), name)
            except ModuleNotFoundError as error:
                raise ImportError(
                    f"purgatory.{name} needs {error.name}: pip install 'timer-purgatory[service]'"
                ) from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
