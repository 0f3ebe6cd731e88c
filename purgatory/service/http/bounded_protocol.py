"""BoundedProtocol: uvicorn's HTTP/1.1, with bounds that slow and many peers cannot exceed.

uvicorn waits without end for the rest of a request, and answers 503 to all when there are too many
connections. Here a connection has a few seconds for each request and its answer; and if there are
too many, the one that has been without a complete request for longest gives way. So a new peer is
answered, however many others hold half a request. Used by the thread `purgatory-http` alone.
"""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds that a connection has to send a request and to take the answer.
REQUEST_S: Final = 5.0
#: Connections at a time. One browser opens six.
MAX_CONNECTIONS: Final = 200


class BoundedProtocol(H11Protocol):
    """One connection; see the module."""

    max_connections: int = MAX_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    #: When it was made, or had its last answer; seconds of the loop's clock.
    answered_at: float = 0.0

    def connection_made(self, transport: Any) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._expect_request()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.stop_deadline()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """See `H11Protocol`."""
        self._expect_request()
        super().on_response_complete()

    def _expect_request(self) -> None:
        """Give the connection its time for the next request, however slowly it sends that."""
        self.stop_deadline()
        self.answered_at = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def stop_deadline(self) -> None:
        """Let the connection take its time."""
        if self._deadline is not None:
            self._deadline.cancel()

    def _make_room(self) -> None:
        connections: set[Any] = self.connections  # all of this class
        while len(connections) > self.max_connections:
            oldest = min(connections, key=attrgetter("answered_at"))
            connections.discard(oldest)  # now, for the loop ends it a moment later
            oldest.transport.abort()
