"""TransactionBudget: how many requests a transaction handles, until it is enough.

Each request of a transaction is answered when all of it is on disk, so it waits for the others. A
client that is alone waits for its own requests, and large transactions are the cheaper ones. While
several clients ask for something, transactions are small, and a large request has its own. Used by
the thread that has the store.
"""

import time
from typing import Final

# A transaction takes no more frames, nor bytes of them, than that; fewer bytes while several
# clients ask for something.
MAX_FRAMES: Final = 1024
MAX_BYTES: Final = 4 << 20
SHARED_BYTES: Final = 64 << 10
#: For so long after a request of another client a server counts as shared.
SHARED_MS: Final = 10_000
#: Seconds in which a transaction handles requests, about.
HANDLE_S: Final = 0.008


class TransactionBudget:
    """What the open transaction may still take. The first request has always room."""

    def __init__(self) -> None:
        self.seconds: float = HANDLE_S
        #: Bytes of the requests that the transaction has handled.
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

    def has_room(self, size: int) -> bool:
        """Tell whether a request of so many bytes is for this transaction, or for the next one."""
        if not self._frames:
            return True
        return (
            self._frames < MAX_FRAMES
            and self.bytes + size <= self._most_bytes
            and time.perf_counter() < self._end
        )

    def spend(self, client: str, size: int, now_ms: int) -> None:
        """Note that a request of a client was handled, at `now_ms` of the server's clock."""
        self._frames += 1
        self.bytes += size
        if client != self._last_client:
            self._shared_until_ms = now_ms + SHARED_MS if self._last_client else 0
            self._last_client = client
        self.is_shared = now_ms < self._shared_until_ms
        self._most_bytes = SHARED_BYTES if self.is_shared else MAX_BYTES
