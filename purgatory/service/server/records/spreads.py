"""Spread: an event with many operations or due jobs, ended in several transactions.

The event happens at one moment, for the operations then waiting for its key, with numbers up to
`last`: none of millions has to be marked. A later change of such an operation counts the event
first, see `KeyEvents.settle`. A due job whose handler begins before its turn runs.

The database has the event, its value once, and the request until answered: after a crash the next
start ends the other operations, or on a full disk the next server's transactions do. Store thread
alone.
"""

from _purgatory_cpython.mypyc_types import i64
from purgatory.core.operations.operation import DelayedOperation
from purgatory.service.encoding import encode
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.memory import spread_bytes
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.operation import (
    EventContext,
    PendingOperation,
    UnfinishedEvents,
)
from purgatory.service.store.rows import UNLIMITED, StoredSpread


class SpreadRequest:
    """A request, answered when all its spreads have ended.

    `counts`: the answer so far. `commands`: the request, as often as sent. `left`: spreads
    unfinished on disk.
    """

    __slots__ = ("commands", "counts", "failed", "is_new", "left", "seq", "session")

    def __init__(self, session: str, seq: int, counts: list[int], *, failed: bool) -> None:
        self.session: str = session
        self.seq: int = seq
        self.counts: list[int] = counts
        self.failed: bool = failed
        self.commands: list[ClientRequest] = []
        self.left: int = 0
        self.is_new: bool = True  # not on disk


class Spread(EventContext):
    """An event, and the operations and due jobs that may wait for it, the next last.

    `place`: in the request. Outcomes from `first_seq` on refer to it.
    """

    __slots__ = (
        "bytes",
        "count",
        "first_seq",
        "jobs",
        "key",
        "last",
        "place",
        "request",
        "waiting",
    )

    def __init__(
        self, number: int, key: str, value: bytes, at_ms: int, first_seq: int, failed: bool
    ) -> None:
        super().__init__(value, at_ms, [], UNLIMITED, failed)
        self.number = number
        self.key: str = key
        self.first_seq: int = first_seq
        self.request: SpreadRequest = SpreadRequest("", 0, [], failed=failed)
        self.place: int = 0
        self.waiting: list[DelayedOperation] = []
        self.jobs: dict[int, OutcomeRecord] = {}  # by sequence number
        self.last: i64 = 0  # the number of the last operation
        self.count: int = 0  # operations ended, and due jobs cancelled
        self.bytes: int = 0

    def set_jobs(self, due: list[OutcomeRecord]) -> int:
        """Set the key's due jobs, in order; return their bytes."""
        self.jobs = {record.seq: record for record in reversed(due)}
        size = spread_bytes(len(due), 0)
        self.bytes += size
        return size

    def reach(self, watchers: list[DelayedOperation], last: int) -> None:
        """Set the key's watchers, in order, and the last number."""
        watchers.reverse()
        self.waiting = watchers
        self.last = last
        self.bytes = spread_bytes(len(watchers), len(self.value))

    def is_for(self, operation: PendingOperation) -> bool:
        """Whether the event still counts for an operation of its key."""
        return (
            operation.number <= self.last
            and not operation.done()
            and operation.is_waiting_for(self.key, self.at_ms)
        )

    def row(self, last_seq: int) -> tuple[object, ...]:
        """Return the row; see `StoredSpread`."""
        request = self.request
        return StoredSpread(
            self.number,
            self.key,
            self.at_ms,
            int(self.failed),
            self.last,
            self.first_seq,
            last_seq,
            self.count,
            request.session,
            request.seq,
            self.place,
            bytearray(encode(request.counts)),
            bytearray(self.value),
        )


class Spreads(UnfinishedEvents):
    """The unfinished spreads of a server."""

    def __init__(self) -> None:
        super().__init__()
        self.in_order: list[Spread] = []

    def add(self, spread: Spread) -> None:
        """Add the latest spread."""
        self.in_order.append(spread)
        self.by_key.setdefault(spread.key, []).append(spread)

    def remove(self, spread: Spread) -> None:
        """Remove a spread."""
        self.in_order.remove(spread)
        same = self.by_key[spread.key]
        same.remove(spread)
        if not same:
            del self.by_key[spread.key]

    def last_of(self, key: str) -> int:
        """Return the last number of a key's spreads; 0 without any."""
        return max([one.last for one in self._of_key(key)], default=0)

    def has_job(self, seq: int) -> bool:
        """Whether a due job is left to a spread."""
        return any(seq in spread.jobs for spread in self.in_order)

    def watched_by(self, operation: PendingOperation) -> list[Spread]:
        """Return the spreads of an operation's keys, in order."""
        found: list[Spread] = []
        for key in operation.keys:
            found += self._of_key(key)
        if len(operation.keys) > 1:
            found.sort(key=lambda spread: spread.number)
        return found

    def _of_key(self, key: str) -> list[Spread]:
        return self.by_key.get(key, [])  # type: ignore[return-value]  # `add` adds spreads only
