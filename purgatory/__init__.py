"""What waits, and what completes it: delayed operations with watch keys and deadlines.

The front door of the package; everything public is named here. It is the roof over two leaves,
``timingwheel`` (when) and ``mq`` (how threads talk), which it uses through their front doors.

Layout: ``operation`` (how one operation ends, exactly once), ``watchers`` (key -> operations),
``purgatory`` (both and the timer, put together), ``keyed`` and ``future`` (waiting for n of some
keys, without subclassing), ``journal`` and ``parquet_journal`` (how operations ended, written
down), ``stats`` and ``metrics`` (what can be seen from outside), ``trace`` and ``replay`` (recorded
operations, sent through a purgatory), ``store`` and ``service`` (a purgatory for other processes,
kept on disk), ``cli``.
"""

import importlib
from typing import TYPE_CHECKING

from purgatory import metrics
from purgatory.core.future import DeferredFuture
from purgatory.core.journal import Journal
from purgatory.core.keyed import KeyedOperation
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome
from purgatory.core.start_and_close import Purgatory
from purgatory.errors import (
    OperationCancelled,
    OperationExpired,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryForked,
    StoreError,
)
from purgatory.journal.files import JournalError
from purgatory.journal.mailbox import Ended, MailboxJournal
from purgatory.journal.parquet import ParquetJournal
from purgatory.stats import PurgatoryStats

if TYPE_CHECKING:
    from purgatory.service import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Client",
    "DeferredFuture",
    "DelayedOperation",
    "Ended",
    "Journal",
    "JournalError",
    "KeyedOperation",
    "MailboxJournal",
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
    "metrics",
]


def __getattr__(name: str) -> object:
    # The clients need an extra: who does not use them need not have it.
    if name in ("AsyncClient", "Client"):
        try:
            return getattr(importlib.import_module("purgatory.service"), name)
        except ModuleNotFoundError as error:
            raise ImportError(
                f"purgatory.{name} needs {error.name}: pip install 'timer-purgatory[service]'"
            ) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
