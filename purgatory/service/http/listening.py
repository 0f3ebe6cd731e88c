"""Where and how HTTP is served: addresses, sockets, and the settings of uvicorn.

For the page and the gateway, which differ in what they serve. Any thread.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import uvicorn

from purgatory.service.errors import ServerError

# Seconds that open requests may delay closing.
_GRACE: Final = 1


def host_and_port(bind: str) -> tuple[str, int]:
    """Split "host:port" or "[address]:port". Raises ServerError for anything else."""
    host, colon, port = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ServerError(f"http_bind is {bind!r}; expected host:port")
    return host, int(port)


def listen(bind: str) -> socket.socket:
    """Listen at "host:port". Raises ServerError."""
    host, port = host_and_port(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServerError(f"cannot serve HTTP at {bind}: {error.strerror or error}") from error


def url_of(address: str, port: int, scheme: str = "http") -> str:
    """Return the URL of a server, without a path."""
    host = f"[{address}]" if ":" in address else address
    return f"{scheme}://{host}:{port}"


def server_config(application: Any, **others: Any) -> uvicorn.Config:
    """Return settings that leave logging, signals and the loop to this program."""
    return uvicorn.Config(
        application,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        **others,
    )
