"""RareLog: logs a line a minute about events that peers can repeat at will.

More could fill the disk, or block the server on its terminal. For one thread.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from purgatory.printable import counted

log: logging.Logger = logging.getLogger(__name__)

CANNOT_ACCEPT: Final = "no connection can be accepted at present: %s"
_LINE_S: Final = 60.0


class RareLog:
    """Logs `message % detail`; `now` returns seconds of a monotonic clock."""

    def __init__(
        self, message: str, now: Callable[[], float] = time.monotonic, level: int = logging.ERROR
    ) -> None:
        self._message = message
        self._now = now
        self._level = level
        self._silent_until = -math.inf
        self._left_out = 0

    def add(self, detail: str) -> None:
        """Log a line; within a minute of the last line, count it for the next."""
        now = self._now()
        if now < self._silent_until:
            self._left_out += 1
            return
        self._silent_until = now + _LINE_S
        left_out, self._left_out = self._left_out, 0
        more = f" (and {counted(left_out, 'time')} since the last line)" if left_out else ""
        log.log(self._level, "%s%s", self._message % detail, more)
