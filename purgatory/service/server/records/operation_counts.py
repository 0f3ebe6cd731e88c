"""OperationCounts: counts operations by state, of all clients and of each; without jobs.

Changes after each commit. For the store thread.
"""

from _purgatory_cpython.mypyc_types import i64
from purgatory.service.protocol import OPERATION_STATES


class _Counts:
    """Operations by state, in fields: each operation changes some, and a field costs no object."""

    __slots__ = OPERATION_STATES

    def __init__(self) -> None:
        self.pending: i64 = 0
        self.completed: i64 = 0
        self.failed: i64 = 0
        self.expired: i64 = 0
        self.cancelled: i64 = 0

    def add(self, outcome: str, by: i64) -> None:
        if outcome == "completed":
            self.completed += by
        elif outcome == "expired":
            self.expired += by
        elif outcome == "cancelled":
            self.cancelled += by
        else:
            self.failed += by

    def is_empty(self) -> bool:
        return not (self.pending or self.completed or self.failed or self.expired or self.cancelled)


class OperationCounts:
    """Counts pending operations, and ended ones until forgotten; in O(1)."""

    def __init__(self) -> None:
        self._all = _Counts()
        self._by_client: dict[str, _Counts] = {}

    def add(self, client: str) -> None:
        """Count a new operation."""
        counts = self._by_client.get(client)
        if counts is None:
            counts = self._by_client[client] = _Counts()
        counts.pending += 1
        self._all.pending += 1

    def end(self, client: str, outcome: str) -> None:
        """Count a pending operation as ended."""
        counts = self._by_client[client]
        counts.pending -= 1
        self._all.pending -= 1
        counts.add(outcome, 1)
        self._all.add(outcome, 1)

    def forget(self, client: str, outcome: str) -> None:
        """Count an ended operation no longer."""
        counts = self._by_client[client]
        counts.add(outcome, -1)
        self._all.add(outcome, -1)
        if counts.is_empty():
            del self._by_client[client]

    def of(self, client: str | None) -> dict[str, int]:
        """Return a client's counts by state, without zeros; None: of all clients."""
        counts = self._all if client is None else self._by_client.get(client)
        if counts is None:
            return {}
        numbers = {state: int(getattr(counts, state)) for state in OPERATION_STATES}
        return {state: count for state, count in numbers.items() if count}
