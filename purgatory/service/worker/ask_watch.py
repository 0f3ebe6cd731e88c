"""AskWatch: watches for the answer to what a worker has asked its server for.

Used by the thread that runs the worker; `begin` by any.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from purgatory.service.client.futures import ReplyFuture

log: logging.Logger = logging.getLogger(__name__)

#: Seconds without an answer after which the log says so.
PATIENCE_S: Final = 5.0


class AskWatch:
    """The last request of the worker `name` for jobs, to the server at `address`."""

    def __init__(self, name: str, address: str, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._name = name
        self._address = address
        self._asked: tuple[ReplyFuture[None], float] | None = None
        self._is_silent = False

    def begin(self, reply: "ReplyFuture[None]") -> None:
        """Watch for the answer to a request, in place of the one before."""
        self._asked = (reply, self._clock())

    def check(self) -> None:
        """Raise what the server refused the request with; log if it does not answer."""
        if self._asked is None:
            return
        reply, since = self._asked
        if reply.done():
            reply.result()
            if self._is_silent:
                log.warning("worker %r: the server at %s answers", self._name, self._address)
            self._is_silent = False
        elif not self._is_silent and self._clock() - since >= PATIENCE_S:
            self._is_silent = True
            log.warning("worker %r: no answer from a server at %s; waiting for one",
                        self._name, self._address)  # fmt: skip
