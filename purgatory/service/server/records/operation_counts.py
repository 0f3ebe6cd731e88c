"""OperationCounts: counts operations without jobs, by state and client.

Changes after each commit. Store thread alone.
"""

from typing import Final

from purgatory.service.protocol import OPERATION_STATES

_PENDING: Final = 0
_PLACES: Final = {state: place for place, state in enumerate(OPERATION_STATES)}


class OperationCounts:
    """Counts pending operations, and ended ones until forgotten."""

    def __init__(self) -> None:
        # In the order of OPERATION_STATES.
        self._all = [0] * len(OPERATION_STATES)
        self._by_client: dict[str, list[int]] = {}

    def add(self, client: str) -> None:
        """Count a new operation."""
        counts = self._by_client.get(client)
        if counts is None:
            counts = self._by_client[client] = [0] * len(OPERATION_STATES)
        counts[_PENDING] += 1
        self._all[_PENDING] += 1

    def end(self, client: str, outcome: str) -> None:
        """Count an operation as ended."""
        place = _PLACES[outcome]
        for counts in (self._by_client[client], self._all):
            counts[_PENDING] -= 1
            counts[place] += 1

    def forget(self, client: str, outcome: str) -> None:
        """Count an ended operation no more."""
        counts, place = self._by_client[client], _PLACES[outcome]
        counts[place] -= 1
        self._all[place] -= 1
        if not any(counts):
            del self._by_client[client]

    def of(self, client: str | None) -> dict[str, int]:
        """Return a client's counts by state, without zeros; None: of all clients."""
        counts = self._all if client is None else self._by_client.get(client, ())
        found = dict(zip(OPERATION_STATES, counts, strict=False))
        return {state: count for state, count in found.items() if count}
