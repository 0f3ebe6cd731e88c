"""AcceptErrors: one line a minute while no connection can be accepted.

An event loop that is out of descriptors logs a traceback for each connection that waits, each
second. It tries again by itself, and accepts when there is room. Used by one loop's thread.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from purgatory.service.server.network.rare_log import CANNOT_ACCEPT, RareLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_OUT_OF_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class AcceptErrors:
    """An exception handler of an event loop; passes other errors on to the loop's own."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._log = RareLog(CANNOT_ACCEPT, now)

    def __call__(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that the loop has caught."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _OUT_OF_ROOM:
            loop.default_exception_handler(context)
        else:
            self._log.add(error.strerror or str(error))
