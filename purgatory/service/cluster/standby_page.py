"""StandbyPage: the live page's figures of a standby. Any thread."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from purgatory.version import package_version

if TYPE_CHECKING:
    from purgatory.service.cluster.cluster_status import ClusterStatus

# A row of the charts after its first figure.
_NOTHING: Final = (0, 0, 0, 0, 0, 0, 0)


class StandbyPage:
    """Reads the state of a standby, like a `StatusReader`."""

    def __init__(self, status: Callable[[], ClusterStatus]) -> None:
        self._status = status
        self._host = socket.gethostname()
        self._version = package_version()
        self._started = time.monotonic()

    @property
    def uptime_s(self) -> float:
        """Seconds since the process began."""
        return time.monotonic() - self._started

    def read(self) -> dict[str, Any]:
        """See `StatusReader`; the figures are 0."""
        status = self._status()
        outcomes = dict.fromkeys(("completed", "failed", "expired", "cancelled"), 0)
        return {
            "name": "service",
            "host": self._host,
            "address": status.address,
            "version": self._version,
            "uptime_s": self.uptime_s,
            "pending": 0,
            "outcomes": outcomes,
            "levels": [],
            "service": None,
            "health": {"broken": "", "not_ready": status.trouble},
            "operations": None,
            "cluster": status.shown(),
        }

    def sample(self) -> tuple[float, ...]:
        """See `StatusReader`."""
        return (self.uptime_s, *_NOTHING)
