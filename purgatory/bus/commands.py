"""Commands: what the threads of a running purgatory tell each other.

Small frozen values. Each thread reads its own mailbox alone, and posts to the others':

    your threads ── CompleteKey, CancelForKey ──>  the loop's mailbox
    the timer    ── Wake ──────────────>  the loop's mailbox     an earlier deadline was added
    who closes   ── Barrier, StopLoop ─────>  the loop's mailbox
    the loop     ── ExpiredBatch ──────>  a worker's ypipe       many writes, one flush
    the loop     ── Activate, Term ────>  a worker's mailbox     at most one wake-up a flush
    a worker     ── TermAck ───────────>  the mailbox of who closes
    who ends it  ── Ended ─────────────>  a mailbox that was given as the journal
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import Outcome

if TYPE_CHECKING:
    from mq import Mailbox


@dataclass(frozen=True, slots=True)
class Wake:
    """A deadline came that is earlier than the one you sleep for."""


@dataclass(frozen=True, slots=True)
class CompleteKey:
    """A watch key was completed."""

    key: Hashable
    value: object = None


@dataclass(frozen=True, slots=True)
class CancelForKey:
    """What waits for a key is to be cancelled."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Barrier:
    """All commands before this one are done when ``reached`` is set."""

    reached: threading.Event


@dataclass(frozen=True, slots=True)
class StopLoop:
    """End the loop."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An operation has ended."""

    operation: DelayedOperation
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ExpiredBatch:
    """Tasks that came due together: ``run(bucket)`` runs what is left of them."""

    run: Callable[[Any], object]
    bucket: Any


@dataclass(frozen=True, slots=True)
class Activate:
    """There are batches in your pipe, and you were asleep."""


@dataclass(frozen=True, slots=True)
class Term:
    """Finish what is in your pipe, then say so and end."""

    reply_to: "Mailbox[TermAck]"


@dataclass(frozen=True, slots=True)
class TermAck:
    """A worker has finished all that was handed over to it."""

    worker: str


LoopCommand = Wake | CompleteKey | CancelForKey | Barrier | StopLoop
WorkerCommand = Activate | Term
