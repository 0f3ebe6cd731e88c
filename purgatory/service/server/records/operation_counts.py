"""OperationCounts: how many operations are in which state, of all clients and of each.

Jobs are counted elsewhere. Changes when a transaction has been committed. Used by the store thread
alone.
"""

from typing import Final

from purgatory.service.protocol import OPERATION_STATES

_PLACES: Final[dict[str, int]] = {state: place for place, state in enumerate(OPERATION_STATES)}
_PENDING: Final = 0


class OperationCounts:
    """Counts pending operations, and ended ones until the server forgets them; in O(1)."""

    __slots__ = ("_all", "_by_client")

    def __init__(self) -> None:
        self._all: list[int] = [0] * len(_PLACES)
        self._by_client: dict[str, list[int]] = {}

    def add(self, client: str) -> None:
        """Count a new operation of a client, which is pending."""
        self._change(client, _PENDING, 1)

    def end(self, client: str, outcome: str) -> None:
        """Count a pending operation as ended."""
        self._change(client, _PENDING, -1)
        self._change(client, _PLACES[outcome], 1)

    def forget(self, client: str, outcome: str) -> None:
        """Count an ended operation no more."""
        self._change(client, _PLACES[outcome], -1)

    def _change(self, client: str, place: int, by: int) -> None:
        counts = self._by_client.get(client)
        if counts is None:
            counts = self._by_client[client] = [0] * len(_PLACES)
        counts[place] += by
        self._all[place] += by
        if by < 0 and not any(counts):
            del self._by_client[client]

    def of(self, client: str | None) -> dict[str, int]:
        """Return the counts of a client by state, without zeros; None: of all clients."""
        if client is None:
            return _by_state(self._all)
        return _by_state(self._by_client.get(client, []))


def _by_state(counts: list[int]) -> dict[str, int]:
    return {state: count for state, count in zip(_PLACES, counts, strict=False) if count}
