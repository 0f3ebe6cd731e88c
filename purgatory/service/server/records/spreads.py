"""Spread: an event of a key for which many operations wait; some of them end in each transaction.

The event happens at one moment, for all operations then waiting for its key: they are *captured*.
Other clients do not wait until all have ended. Later changes of a captured operation come after the
event: the transaction lets the event count for it first, see `KeyEvents.settle`.

The database has the event, its value once, and the request until it is answered: after a crash the
next start ends what is left. Used by the store thread alone.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from purgatory.core.operations.operation import DelayedOperation
from purgatory.service.encoding import encode
from purgatory.service.server.memory import spread_bytes
from purgatory.service.server.records.operation import EventContext, PendingOperation
from purgatory.service.store.rows import UNLIMITED, StoredSpread

if TYPE_CHECKING:
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
    """An event, and its waiting operations. `place`: in the request.

    `settle` lets it count for a captured operation. Outcomes from `first_seq` on refer to it.
    """

    __slots__ = (
        "_settle",
        "bytes",
        "count",
        "first_seq",
        "key",
        "last",
        "place",
        "request",
        "waiting",
    )

    def __init__(
        self,
        number: int,
        key: str,
        value: bytes,
        at_ms: int,
        first_seq: int,
        settle: Callable[[PendingOperation], None],
        failed: bool,
    ) -> None:
        super().__init__(value, at_ms, [], UNLIMITED, failed)
        self.number = number
        self.key: str = key
        self.first_seq: int = first_seq
        self._settle = settle
        # The client's request, when known.
        self.request: SpreadRequest = SpreadRequest("", 0, [], failed=failed)
        self.place: int = 0
        self.waiting: deque[PendingOperation] = deque()
        self.last: int = 0  # number of an operation: later ones are not captured
        self.count: int = 0  # operations ended by it
        self.bytes: int = 0

    def capture(self, watchers: list[DelayedOperation]) -> None:
        """Note the watchers of the key for which the event counts.

        There may be millions, and all clients wait meanwhile: they are looked at once.
        """
        for operation in watchers:
            assert isinstance(operation, PendingOperation)
            if operation.captured is not None:  # by an earlier event
                self._settle(operation)
            if not operation.done() and operation.is_waiting_for(self.key, self.at_ms):
                operation.captured = self
                self.waiting.append(operation)
                self.last = max(self.last, operation.number)
        self.bytes = spread_bytes(len(self.waiting), len(self.value))

    def settle(self, operation: PendingOperation) -> None:
        """See `EventContext`."""
        self._settle(operation)

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
