"""Commands: messages between the threads of a running purgatory. Small frozen values.

Each thread reads its own mailbox:

    your threads ────── CompleteKey, FailKey, … ────>  the loop's mailbox    posted by `..._later`
    the timer ───────── Wake ───────────────────────>  the loop's mailbox    an earlier deadline
    a closing thread ── Barrier, StopLoop ──────────>  the loop's mailbox
    the loop ────────── ExpiredBatch ───────────────>  a worker's ypipe      many writes, one flush
    the loop ────────── Activate, Term ─────────────>  a worker's mailbox    one wake-up a flush
    a worker ────────── TermAck ────────────────────>  the closing thread's mailbox
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from mq import Mailbox


@dataclass(frozen=True, slots=True)
class Wake:
    """An earlier deadline was added."""


@dataclass(frozen=True, slots=True)
class CompleteKey:
    """A watch key was completed."""

    key: Hashable
    value: object = None
    limit: int = -1  # of operations; -1: none
    hold_ns: int = 0


@dataclass(frozen=True, slots=True)
class FailKey:
    """A watch key failed with an error or class; `first`: the first error."""

    key: Hashable
    error: object
    first: Exception


@dataclass(frozen=True, slots=True)
class CancelForKey:
    """Cancel what waits for a key."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Barrier:
    """Set `reached`: all earlier commands are done."""

    reached: threading.Event


@dataclass(frozen=True, slots=True)
class StopLoop:
    """End the loop."""


@dataclass(frozen=True, slots=True)
class ExpiredBatch:
    """Tasks that came due together: `run(bucket)` runs the remaining tasks."""

    run: Callable[[Any], object]
    bucket: Any


@dataclass(frozen=True, slots=True)
class Activate:
    """Read the pipe: a flush found the worker asleep."""


@dataclass(frozen=True, slots=True)
class Term:
    """Finish what is in the pipe, reply, and end."""

    reply_to: "Mailbox[TermAck]"


@dataclass(frozen=True, slots=True)
class TermAck:
    """A worker has finished all its batches."""

    worker: str


KeyCommand = CompleteKey | FailKey | CancelForKey
LoopCommand = Wake | KeyCommand | Barrier | StopLoop
WorkerCommand = Activate | Term
