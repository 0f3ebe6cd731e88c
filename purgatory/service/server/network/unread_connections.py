"""UnreadConnections: connections that are left unread, each for one reason or more.

The kernel drops what arrives, and the peer sends again what was dropped (see `router_socket`). A
connection is read again when its last reason has gone. Any thread; the lock is never held while
another one is taken.
"""

import contextlib
import threading

from purgatory.service.server.network.router_socket import drop_arrivals, take_arrivals


class UnreadConnections:
    """The reasons by descriptor; a reason is the object that leaves the connection unread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[int, set[object]] = {}

    def leave(self, descriptor: int, reason: object) -> None:
        """Leave a connection unread. Raises OSError if it has ended, or there are no filters."""
        with self._lock:
            # Also beside another reason, which may be an earlier connection's.
            drop_arrivals(descriptor)
            self._reasons.setdefault(descriptor, set()).add(reason)

    def read(self, descriptor: int, reason: object) -> None:
        """Read a connection again, unless another reason is left. Idempotent."""
        with self._lock:
            reasons = self._reasons.get(descriptor, set())
            reasons.discard(reason)
            if not reasons:
                self._reasons.pop(descriptor, None)
                with contextlib.suppress(OSError):  # the connection has ended
                    take_arrivals(descriptor)
