"""DescriptorWatch: one line a minute while a server is out of descriptors.

ZeroMQ says nothing of connections that it cannot accept. It goes on trying, serves the connections
that there are, and closes those that do not finish their handshake in time. Asking it to report
failures is no way out: it stops altogether when its reports are not read.

Used by the network thread alone.
"""

import os
import time
from collections.abc import Callable
from typing import Final

from purgatory.service.server.sockets.rare_log import CANNOT_ACCEPT, RareLog

#: Seconds between two checks, at least, and at most while nothing happens.
CHECK_S: Final = 1.0
IDLE_CHECK_S: Final = 5.0


class DescriptorWatch:
    """Checks whether another descriptor could be opened."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next_check = now()
        self._log = RareLog(CANNOT_ACCEPT, now)

    def check(self, descriptor: int) -> None:
        """Try to copy an open descriptor, if it is time, and log if that cannot be done."""
        now = self._now()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_S
        error = _copy_error(descriptor)
        if error:
            self._log.add(error)


def _copy_error(descriptor: int) -> str:
    """Return why a descriptor cannot be copied; empty if it can be."""
    try:
        os.close(os.dup(descriptor))
    except OSError as error:
        return error.strerror or str(error)
    return ""
