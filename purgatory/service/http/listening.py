"""Sockets and limits of HTTP servers, for the page and the gateway.

uvicorn waits without end for the rest of a request, and answers 503 to all if too many connections
are open. Here a connection has a few seconds for a request and its answer. If too many are open, a
new connection closes the longest silent: without a token, or else without a request under way. So
no stream ends.
"""

import asyncio
import errno
import logging
import socket
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable
from operator import methodcaller
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from purgatory.service.config import host_and_port
from purgatory.service.errors import ServerError
from purgatory.service.rare_log import CANNOT_ACCEPT, RareLog

# Seconds that open requests may delay the end.
_GRACE: Final = 1


def listen(bind: str) -> socket.socket:
    """Listen at "host:port". Raises ConfigError and ServerError."""
    host, port = host_and_port(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServerError(f"cannot serve HTTP at {bind}: {error.strerror or error}") from error
    # Else each answer on a kept connection waits 40 ms for an acknowledgement: asyncio sets
    # TCP_NODELAY only where the protocol is named. Connections inherit the option.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(address: str, port: int, scheme: str = "http") -> str:
    """Return the URL of a server, without a path."""
    host = f"[{address}]" if ":" in address else address
    return f"{scheme}://{host}:{port}"


class _Config(uvicorn.Config):
    def configure_logging(self) -> None:
        """Leave the loggers to a program that has configured them for its own uvicorn."""
        logger = logging.getLogger("uvicorn.error")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.ERROR)


def server_config(application: Any, **others: Any) -> uvicorn.Config:
    """Return settings without uvicorn's logging, signals and loop."""
    return _Config(
        application,
        loop="asyncio",
        ws="none",
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        **others,
    )


# Of errors alone: else a stranger's bad request is a line.
_log: Final = logging.getLogger(f"{__name__}.connections")
_log.setLevel(logging.ERROR)
#: In the state of a request with a valid token.
KNOWN: Final = "is_known"
#: Seconds for a request and its answer.
REQUEST_S: Final = 5.0
#: One browser opens six.
MAX_CONNECTIONS: Final = 200


class BoundedProtocol(H11Protocol):
    """One connection, bounded; see the module. For the event loop's thread."""

    max_connections: int = MAX_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    #: Of the last answer, or the connection.
    answered_at: float = 0.0

    def __init__(self, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.access_log = False
        self.logger = _log

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
        self.answered_at = self.loop.time()
        self.start_deadline()

    def start_deadline(self) -> None:
        """Begin the time for a request and its answer."""
        self.stop_deadline()
        self._deadline = self.loop.call_later(REQUEST_S, self.transport.abort)

    def stop_deadline(self) -> None:
        """End the time limit."""
        if self._deadline is not None:
            self._deadline.cancel()

    def _make_room(self) -> None:
        connections: set[Any] = self.connections  # of the server
        while len(connections) > self.max_connections:
            least = min(connections, key=methodcaller("worth"))
            connections.discard(least)  # now; the loop ends it later
            least.transport.abort()

    def worth(self) -> tuple[bool, bool, float]:
        """Return the sort key for closing: the least is closed."""
        is_known = bool(self.scope) and bool(self.scope["state"].get(KNOWN))
        return is_known, self.waits_for_answer(), self.answered_at

    def waits_for_answer(self) -> bool:
        """Tell whether a complete request is unanswered."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete


_OUT_OF_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class AcceptErrors:
    """An exception handler of an event loop: a line a minute while nothing can be accepted.

    Without descriptors a loop would log a traceback a second for each waiting connection. Other
    errors go to its own handler.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._log = RareLog(CANNOT_ACCEPT, now)

    def __call__(self, loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error of the loop."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _OUT_OF_ROOM:
            loop.default_exception_handler(context)
        else:
            self._log.add(error.strerror or str(error))
