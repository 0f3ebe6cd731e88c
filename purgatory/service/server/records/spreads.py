"""Spread: an event of a key for which many operations wait; some of them end in each transaction.

The event happens at one moment, for all operations then waiting for its key. Their numbers are at
most `last`, so no operation has to be marked: there may be millions, and all clients would wait.
Later changes of such an operation come after the event: the transaction lets the event count for it
first, see `KeyEvents.settle`.

The database has the event, its value once, and the request until it is answered: after a crash the
next start ends what is left. Used by the store thread alone.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from purgatory.core.operations.operation import DelayedOperation
from purgatory.service.encoding import encode
from purgatory.service.server.memory import spread_bytes
from purgatory.service.server.records.operation import (
    EventContext,
    PendingOperation,
    UnfinishedEvents,
)
from purgatory.service.store.rows import UNLIMITED, StoredSpread

if TYPE_CHECKING:
    from _purgatory_cpython.mypyc_types import i64
    from purgatory.service.server.commands import ClientRequest


class SpreadRequest:
    """The request of which events are spread: answered when all of them have ended.

    `counts`: its answer so far. `commands`: the request, as often as sent. `left`: how many of its
    spreads are unfinished on disk.
    """

    __slots__ = ("commands", "counts", "failed", "is_new", "left", "seq", "session")

    def __init__(self, session: str, seq: int, counts: list[int], *, failed: bool) -> None:
        self.session: str = session
        self.seq: int = seq
        self.counts: list[int] = counts
        self.failed: bool = failed
        self.commands: list[ClientRequest] = []
        self.left: int = 0
        self.is_new: bool = True  # nothing of it is on disk


class Spread(EventContext):
    """An event, and operations that may wait for the event, the next last. `place`: in the request.

    Outcomes from `first_seq` on refer to it.
    """

    __slots__ = ("bytes", "count", "first_seq", "key", "last", "place", "request", "waiting")

    def __init__(
        self, number: int, key: str, value: bytes, at_ms: int, first_seq: int, failed: bool
    ) -> None:
        super().__init__(value, at_ms, [], UNLIMITED, failed)
        self.number = number
        self.key: str = key
        self.first_seq: int = first_seq
        # The client's request, when known.
        self.request: SpreadRequest = SpreadRequest("", 0, [], failed=failed)
        self.place: int = 0
        self.waiting: list[DelayedOperation] = []
        self.last: i64 = 0  # number of an operation: the event is not for later ones
        self.count: int = 0  # operations ended by it
        self.bytes: int = 0

    def reach(self, watchers: list[DelayedOperation], last: int) -> None:
        """Have the event count for watchers of its key, the first one first, up to a number."""
        watchers.reverse()
        self.waiting = watchers
        self.last = last
        self.bytes = spread_bytes(len(watchers), len(self.value))

    def is_for(self, operation: PendingOperation) -> bool:
        """Whether the event is still to count for an operation that watches its key."""
        return (
            operation.number <= self.last
            and not operation.done()
            and operation.is_waiting_for(self.key, self.at_ms)
        )

    def row(self, last_seq: int) -> tuple[object, ...]:
        """Return its row; `last_seq`: see `StoredSpread`."""
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
    """The unfinished spreads of a server, in order; `settle` lets them count for an operation."""

    def __init__(self, settle: Callable[[PendingOperation], None]) -> None:
        super().__init__()
        self._settle = settle
        self._in_order: list[Spread] = []

    def settle(self, operation: PendingOperation) -> None:
        """See `UnfinishedEvents`."""
        self._settle(operation)

    def add(self, spread: Spread) -> None:
        """Add one, the latest."""
        self._in_order.append(spread)
        self.by_key.setdefault(spread.key, []).append(spread)

    def remove(self, spread: Spread) -> None:
        """Remove one."""
        self._in_order.remove(spread)
        same = self.by_key[spread.key]
        same.remove(spread)
        if not same:
            del self.by_key[spread.key]

    def last_of(self, key: str) -> int:
        """Return up to which operation an unfinished spread of a key counts; 0: there is none."""
        return max([one.last for one in self._of_key(key)], default=0)

    def watched_by(self, operation: PendingOperation) -> list[Spread]:
        """Return those of the keys of an operation, in order."""
        found: list[Spread] = []
        for key in operation.keys:
            found += self._of_key(key)
        if len(operation.keys) > 1:
            found.sort(key=_number)
        return found

    def _of_key(self, key: str) -> list[Spread]:
        return self.by_key.get(key, [])  # type: ignore[return-value]  # `add` adds no others

    def __iter__(self) -> Iterator[Spread]:
        return iter(self._in_order)

    def __len__(self) -> int:
        return len(self._in_order)


def _number(spread: Spread) -> int:
    return spread.number
