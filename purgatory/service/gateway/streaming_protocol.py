"""StreamingProtocol: the bounds of the page's HTTP for requests, none for answers.

A stream of outcomes goes on for as long as its reader likes. Requests have a few seconds, as there.
"""

from __future__ import annotations

from typing import Any, Final

from purgatory.service.http.bounded_protocol import BoundedProtocol

_MAX_CONNECTIONS: Final = 1000


class StreamingProtocol(BoundedProtocol):
    """One connection; see the module."""

    max_connections = _MAX_CONNECTIONS

    def handle_events(self) -> None:
        """See `H11Protocol`."""
        super().handle_events()
        cycle: Any = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self.stop_deadline()
