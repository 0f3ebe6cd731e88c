"""FairQueue: a queue in which senders take turns.

A sender with many or large requests does not keep others waiting: it waits until its turns, each a
credit, pay for its next item (deficit round robin; Shreedhar and Varghese, 1995).

A *sender* is a client or a connection: all connections of one client are one sender, and so are all
clients of one connection. A client's items stay in order. Keys take turns too: a key with many
names has no more turns than another. One thread uses a queue.
"""

import time
from collections import deque
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: The credit of a turn, in bytes of requests.
CREDIT: Final = 64 << 10
# Limits of a transaction: frames, bytes, and bytes of a shared server.
MAX_FRAMES: Final = 1024
MAX_BYTES: Final = 4 << 20
SHARED_BYTES: Final = 64 << 10
#: A server counts as shared for so long after a request of another client.
SHARED_MS: Final = 10_000
#: Seconds for the requests of a transaction, about.
HANDLE_S: Final = 0.008


class FairQueue(Generic[T]):
    """Items, each with its client, `route` and public `key`."""

    def __init__(self) -> None:
        self._by_client: dict[str, _SenderQueue[T]] = {}
        self._by_route: dict[bytes, _SenderQueue[T]] = {}
        self._keys: dict[str, _KeyTurns[T]] = {}
        self._turns: deque[_KeyTurns[T]] = deque()  # of `_keys`, the next one first
        self.length: int = 0

    def count(self, client: str, route: bytes = b"") -> int:
        """Return how many items a sender has."""
        queue = self._by_client.get(client) or self._by_route.get(route)
        return 0 if queue is None else len(queue.items)

    def append(
        self, client: str, item: T, cost: int = 0, *, route: bytes = b"", key: str = ""
    ) -> None:
        """Add an item of a client."""
        self.length += 1
        queue = self._by_client.get(client) or self._by_route.get(route)
        if queue is None:
            queue = self._add_sender(client, route, key)
        elif queue.add_name(client, route):
            self._by_client[client] = queue
            if route:
                self._by_route.setdefault(route, queue)
        queue.items.append((item, cost, client, route))

    def _add_sender(self, client: str, route: bytes, key: str) -> "_SenderQueue[T]":
        turns = self._keys.get(key)
        if turns is None:
            turns = self._keys[key] = _KeyTurns(key)
            self._turns.append(turns)
        queue = _SenderQueue(turns, client, route)
        turns.senders.append(queue)
        self._by_client[client] = queue
        if route:
            self._by_route[route] = queue
        return queue

    def popleft(self) -> T:
        """Remove the next item. Raises IndexError without any."""
        return self._pop(self._next())

    def _pop(self, queue: "_SenderQueue[T]") -> T:
        turns = queue.turns
        self._turns.popleft()
        turns.senders.popleft()
        self.length -= 1
        item, cost, client, route = queue.items.popleft()
        if queue.items:
            queue.credit = min(queue.credit - cost + CREDIT, CREDIT)
            turns.senders.append(queue)
        if queue.counts or not queue.items:
            self._forget(queue, client, route)
        if turns.senders:
            turns.credit = min(turns.credit - cost + CREDIT, CREDIT)
            self._turns.append(turns)
        else:
            del self._keys[turns.key]
        return item

    def _forget(self, queue: "_SenderQueue[T]", client: str, route: bytes) -> None:
        if queue.remove(client):
            del self._by_client[client]
        if route and queue.remove(route) and self._by_route.get(route) is queue:
            del self._by_route[route]

    def _next(self) -> "_SenderQueue[T]":
        """Return the first sender with credit for its next item; senders before get more."""
        turns = self._turns
        while True:
            queue = turns[0].next()
            if len(turns) == 1 or queue.items[0][1] <= turns[0].credit:
                return queue
            turns[0].credit += CREDIT
            turns.rotate(-1)


class RequestQueue(FairQueue[T]):
    """Waiting requests, and how many fit into a transaction.

    A request is answered when all of its transaction is on disk. A lone client waits for its own
    requests only, and large transactions are cheaper. While several clients send requests,
    transactions are small. Thread with the store.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: float = HANDLE_S
        self.bytes: int = 0
        #: Whether several clients have sent requests lately; for any thread.
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
        """Remove the next request, if it fits; the first always does."""
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
        client = queue.items[0][2]
        if client != self._last_client:
            self._shared_until_ms = now_ms + SHARED_MS if self._last_client else 0
            self._last_client = client
        self.is_shared = now_ms < self._shared_until_ms
        self._most_bytes = SHARED_BYTES if self.is_shared else MAX_BYTES
        return self._pop(queue)


class _SenderQueue(Generic[T]):
    """A sender's items and credit; `turns`: of its key.

    `counts`: items by client and route; empty while all have the same.
    """

    __slots__ = ("client", "counts", "credit", "items", "route", "turns")

    def __init__(self, turns: "_KeyTurns[T]", client: str, route: bytes) -> None:
        self.turns = turns
        self.client = client
        self.route = route
        self.items: deque[tuple[T, int, str, bytes]] = deque()
        self.counts: dict[str | bytes, int] = {}
        self.credit = CREDIT

    def add_name(self, client: str, route: bytes) -> bool:
        """Count a new item; return False for the usual names."""
        if not self.counts:
            if client == self.client and route == self.route:
                return False
            self.counts[self.client] = len(self.items)
            if self.route:
                self.counts[self.route] = len(self.items)
        self.counts[client] = self.counts.get(client, 0) + 1
        if route:
            self.counts[route] = self.counts.get(route, 0) + 1
        return True

    def remove(self, name: str | bytes) -> bool:
        """Count an item less; return whether it was the last."""
        if not self.counts:
            return not self.items
        left = self.counts[name] - 1
        if left:
            self.counts[name] = left
        else:
            del self.counts[name]
        return not left


class _KeyTurns(Generic[T]):
    __slots__ = ("credit", "key", "senders")

    def __init__(self, key: str) -> None:
        self.key = key
        self.senders: deque[_SenderQueue[T]] = deque()
        self.credit = CREDIT

    def next(self) -> _SenderQueue[T]:
        senders = self.senders
        while (queue := senders[0]).items[0][1] > queue.credit:
            queue.credit += CREDIT
            senders.rotate(-1)
        return queue
