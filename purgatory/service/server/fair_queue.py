"""FairQueue: what waits for a thread, first come first served within each client.

The clients take turns, so one that asks for much does not keep the others waiting: nor does one
whose requests are large. Each turn brings a credit, and an item that costs more waits until its
client has had enough turns (deficit round robin; Shreedhar and Varghese, 1995). What one client
sends stays in order, over all its connections: requests that it sends again on a new one come
behind those that it sent on the old one. Each is used by one thread.
"""

import time
from collections import deque
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: What a turn brings, in the unit of the costs: bytes of requests.
CREDIT: Final = 64 << 10
# A transaction takes no more frames, nor bytes of them, than that; fewer bytes while several
# clients ask for something.
MAX_FRAMES: Final = 1024
MAX_BYTES: Final = 4 << 20
SHARED_BYTES: Final = 64 << 10
#: For so long after a request of another client a server counts as shared.
SHARED_MS: Final = 10_000
#: Seconds in which a transaction handles requests, about.
HANDLE_S: Final = 0.008


class FairQueue(Generic[T]):
    """Items, each of a client."""

    def __init__(self) -> None:
        self._by_client: dict[str, _ClientQueue[T]] = {}  # of those that have items
        self._turns: deque[_ClientQueue[T]] = deque()  # the same, the next one first
        #: How many items there are.
        self.length: int = 0

    def count(self, client: str) -> int:
        """Return how many items of a client there are."""
        queue = self._by_client.get(client)
        return 0 if queue is None else len(queue.items)

    def append(self, client: str, item: T, cost: int = 0) -> None:
        """Add an item, behind the others of its client."""
        self.length += 1
        queue = self._by_client.get(client)
        if queue is None:
            queue = self._by_client[client] = _ClientQueue(client)
            self._turns.append(queue)
        queue.items.append((item, cost))

    def popleft(self) -> T:
        """Remove the next item, of the client whose turn it is. Raises IndexError if none is."""
        return self._pop(self._next())

    def _pop(self, queue: "_ClientQueue[T]") -> T:
        """Remove the item of the client whose turn it is."""
        self._turns.popleft()
        self.length -= 1
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
        self.length = 0


class RequestQueue(FairQueue[T]):
    """Requests that wait, and how many of them a transaction takes, until it is enough.

    Each request of a transaction is answered when all of it is on disk, so it waits for the others.
    A client that is alone waits for its own requests, and large transactions are the cheaper ones.
    While several clients ask for something, transactions are small, and a large request has its
    own. Used by the thread that has the store.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: float = HANDLE_S
        #: Bytes of the requests that the transaction has taken.
        self.bytes: int = 0
        #: Whether several clients have asked for something lately; any thread may read it.
        self.is_shared: bool = False
        self._frames = 0
        self._end = 0.0  # by `time.perf_counter`
        self._most_bytes = MAX_BYTES
        self._last_client = ""
        self._shared_until_ms = 0

    def begin(self) -> None:
        """Note that a transaction begins."""
        self.bytes = self._frames = 0
        self._end = time.perf_counter() + self.seconds

    def take(self, now_ms: int) -> T | None:
        """Remove the next request, if it is for this transaction; the first one always is.

        `now_ms`: by the server's clock.
        """
        if not self.length:
            return None
        queue = self._next()
        size = queue.items[0][1]
        if self._frames and (
            self._frames >= MAX_FRAMES
            or self.bytes + size > self._most_bytes
            or time.perf_counter() >= self._end
        ):
            return None
        self._frames += 1
        self.bytes += size
        client = queue.client
        if client != self._last_client:
            self._shared_until_ms = now_ms + SHARED_MS if self._last_client else 0
            self._last_client = client
        self.is_shared = now_ms < self._shared_until_ms
        self._most_bytes = SHARED_BYTES if self.is_shared else MAX_BYTES
        return self._pop(queue)


class _ClientQueue(Generic[T]):
    """The items of a client, with what they cost, and what it may spend on the next one."""

    __slots__ = ("client", "credit", "items")

    def __init__(self, client: str) -> None:
        self.client = client
        self.items: deque[tuple[T, int]] = deque()
        self.credit = CREDIT
