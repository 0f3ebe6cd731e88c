"""FairQueue: what waits for a thread, first come first served within each client.

The clients take turns, so one that asks for much does not keep the others waiting: nor does one
whose requests are large. Each turn brings a credit, and an item that costs more waits until its
client has had enough turns (deficit round robin; Shreedhar and Varghese, 1995). What one client
sends stays in order, over all its connections: requests that it sends again on a new one come
behind those that it sent on the old one. Each is used by one thread.
"""

from collections import deque
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: What a turn brings, in the unit of the costs: bytes of requests.
CREDIT: Final = 64 << 10


class FairQueue(Generic[T]):
    """Items, each of a client."""

    def __init__(self) -> None:
        self._by_client: dict[str, _ClientQueue[T]] = {}  # of those that have items
        self._turns: deque[_ClientQueue[T]] = deque()  # the same, the next one first
        self._length = 0

    def __len__(self) -> int:
        """Return how many items there are."""
        return self._length

    def count(self, client: str) -> int:
        """Return how many items of a client there are."""
        queue = self._by_client.get(client)
        return 0 if queue is None else len(queue.items)

    def append(self, client: str, item: T, cost: int = 0) -> None:
        """Add an item, behind the others of its client."""
        self._length += 1
        queue = self._by_client.get(client)
        if queue is None:
            queue = self._by_client[client] = _ClientQueue(client)
            self._turns.append(queue)
        queue.items.append((item, cost))

    def peek(self) -> T:
        """Return the next item. Raises IndexError if there is none."""
        return self._next().items[0][0]

    def popleft(self) -> T:
        """Remove the next item, of the client whose turn it is. Raises IndexError if none is."""
        queue = self._next()
        self._turns.popleft()
        self._length -= 1
        item, cost = queue.items.popleft()
        if queue.items:
            queue.credit = min(queue.credit - cost + CREDIT, CREDIT)
            self._turns.append(queue)
        else:
            del self._by_client[queue.client]
        return item

    def _next(self) -> "_ClientQueue[T]":
        """Return the first client that can afford its next item; the others lose their turn."""
        turns = self._turns
        while (queue := turns[0]).items[0][1] > queue.credit:
            queue.credit += CREDIT
            turns.rotate(-1)
        return queue

    def clear(self) -> None:
        """Remove all items."""
        self._by_client.clear()
        self._turns.clear()
        self._length = 0


class _ClientQueue(Generic[T]):
    """The items of a client, with what they cost, and what it may spend on the next one."""

    __slots__ = ("client", "credit", "items")

    def __init__(self, client: str) -> None:
        self.client = client
        self.items: deque[tuple[T, int]] = deque()
        self.credit = CREDIT
