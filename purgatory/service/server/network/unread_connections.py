"""UnreadConnections: connections left unread, for one reason or more; see `router_socket`.

Any thread; its lock is a leaf.
"""

import contextlib
import threading

from purgatory.service.server.network.router_socket import drop_arrivals, take_arrivals


class UnreadConnections:
    """The objects that want a connection unread, by descriptor."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[int, set[object]] = {}

    def leave(self, descriptor: int, reason: object) -> None:
        """Leave a connection unread. Raises OSError for an ended one, or without filters."""
        with self._lock:
            # Again: the descriptor may be another connection's.
            drop_arrivals(descriptor)
            self._reasons.setdefault(descriptor, set()).add(reason)

    def read(self, descriptor: int, reason: object) -> None:
        """Read a connection, unless another reason is left. Idempotent."""
        with self._lock:
            reasons = self._reasons.get(descriptor, set())
            reasons.discard(reason)
            if not reasons:
                self._reasons.pop(descriptor, None)
                with contextlib.suppress(OSError):  # the connection has ended
                    take_arrivals(descriptor)
