"""FairQueue: what waits for the store thread, first come first served within each client.

The clients take turns, so one that asks for much does not keep the others waiting. What one client
sends stays in order, over all its connections: requests that it sends again on a new one come
behind those that it sent on the old one. Used by the store thread alone.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items, each of a client."""

    def __init__(self) -> None:
        self._by_client: dict[str, deque[T]] = {}  # no empty ones
        self._turns: deque[str] = deque()  # the clients that have items, the next one first
        self._length = 0

    def __len__(self) -> int:
        """Return how many items there are."""
        return self._length

    def count(self, client: str) -> int:
        """Return how many items of a client there are."""
        return len(self._by_client.get(client, ()))

    def append(self, client: str, item: T) -> None:
        """Add an item, behind the others of its client."""
        self._length += 1
        items = self._by_client.get(client)
        if items is None:
            items = self._by_client[client] = deque()
            self._turns.append(client)
        items.append(item)

    def popleft(self) -> T:
        """Remove the next item, of the client whose turn it is. Raises IndexError if none is."""
        client = self._turns.popleft()
        items = self._by_client[client]
        item = items.popleft()
        self._length -= 1
        if items:
            self._turns.append(client)
        else:
            del self._by_client[client]
        return item

    def clear(self) -> None:
        """Remove all items."""
        self._by_client.clear()
        self._turns.clear()
        self._length = 0
