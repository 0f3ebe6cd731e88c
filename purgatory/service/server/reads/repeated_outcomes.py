"""RepeatedOutcomes: the outcomes that connections have asked for once more, by submitting again.

They are kept as references to their records, and read from the store a frame at a time, when the
connection has taken the frame before. Used by the store thread alone.
"""

from collections.abc import Iterable
from itertools import islice

from purgatory.service.errors import TooManyReads
from purgatory.service.server.records.clients import OutcomeRecord

#: How many outcomes may wait to be repeated to one connection, and to all of them, at most. A
#: client that has lost its connection submits up to 32 messages again.
REPEATED_PER_CONNECTION = 1 << 16
REPEATED = 1 << 18


class RepeatedOutcomes:
    """The records of outcomes, by the route of the connection."""

    def __init__(self) -> None:
        self._by_route: dict[bytes, dict[int, OutcomeRecord]] = {}  # by sequence number
        self._count = 0

    def __len__(self) -> int:
        """Return how many outcomes wait."""
        return self._count

    def check_room(self, route: bytes) -> None:
        """Raise TooManyReads if a connection may not ask for more now."""
        waiting = len(self._by_route.get(route, ()))
        if waiting >= REPEATED_PER_CONNECTION or (waiting and self._count >= REPEATED):
            raise TooManyReads(
                f"{waiting} outcomes wait to be sent again on this connection; read them first"
            )

    def add(self, route: bytes, records: Iterable[OutcomeRecord]) -> bool:
        """Add outcomes; True if the connection had asked for none before: it has to be served."""
        known = self._by_route.get(route)
        waiting = self._by_route.setdefault(route, {})
        before = len(waiting)
        for record in records:
            waiting[record.seq] = record
        self._count += len(waiting) - before
        return known is None

    def next_of(self, route: bytes, limit: int) -> list[OutcomeRecord]:
        """Return up to `limit` outcomes, in the order in which they were added; they stay."""
        return list(islice(self._by_route.get(route, {}).values(), limit))

    def remove(self, route: bytes, seqs: Iterable[int]) -> None:
        """Remove outcomes: they were sent, or have been deleted."""
        waiting = self._by_route.get(route, {})
        for seq in seqs:
            if waiting.pop(seq, None) is not None:
                self._count -= 1

    def forget(self, route: bytes) -> None:
        """Remove all outcomes of a connection."""
        self._count -= len(self._by_route.pop(route, ()))
