"""AcceptLog: one line a minute while no connection can be accepted, whatever port it is of.

Used by one thread.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

log: logging.Logger = logging.getLogger(__name__)

_LINE_S: Final = 60.0


class AcceptLog:
    """Logs refusals of the system; `now` returns seconds of a monotonic clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._silent_until = -math.inf

    def add(self, reason: str) -> None:
        """Log that no connection can be accepted, unless it was said within the last minute."""
        now = self._now()
        if now >= self._silent_until:
            self._silent_until = now + _LINE_S
            log.error("no connection can be accepted at present: %s", reason)
