"""Web: what a server shows over HTTP. It is for looking: nothing here changes anything.

``/`` the live page, ``/state.json`` what feeds it, ``/metrics`` for Prometheus, ``/healthz``
whether the process works, ``/readyz`` whether it takes requests. A thread of its own,
``purgatory-http``, answers; `WebServer` may be made and closed by any other.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Self

import uvicorn
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from purgatory.service.errors import ServerError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

#: Tells why something is not as it should be; empty if it is.
Check = Callable[[], str]

# Seconds for which a browser's open request may hold up the end.
_GRACE: Final = 1
# Connections at a time; more are answered 503. One browser opens six.
_MOST_CONNECTIONS: Final = 200

_PAGE: Final = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/rings.js": ("rings.js", "text/javascript"),
    "/text.js": ("text.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

# The page needs nothing from elsewhere, nobody may frame it, and its figures go nowhere else.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class WebServer:
    """Serves ``state`` and ``registry`` at ``bind``, "host:port"; port 0 takes a free one.

    ``health`` and ``ready`` are asked for each request; both are called in the server's thread.
    Also a context manager. Raises ServerError when the address cannot be listened on.
    """

    def __init__(
        self,
        bind: str,
        *,
        state: Callable[[], Mapping[str, Any]],
        registry: CollectorRegistry,
        health: Check,
        ready: Check,
    ) -> None:
        self._socket = _listen(bind)
        self.addr, self.port = self._socket.getsockname()[:2]
        config = uvicorn.Config(
            _application(state, registry, health, ready),
            http="h11",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="purgatory-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the page is."""
        host = f"[{self.addr}]" if ":" in self.addr else self.addr
        return f"http://{host}:{self.port}/"

    def _run(self) -> None:
        with contextlib.closing(self._socket):
            self._server.run(sockets=[self._socket])

    def close(self) -> None:
        """Stop listening, and end the thread within a moment. Idempotent."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def host_and_port(bind: str) -> tuple[str, int]:
    """The parts of "host:port" or "[address]:port". ServerError for anything else."""
    host, colon, port = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ServerError(f"http_bind is {bind!r}; expected host:port")
    return host, int(port)


def _listen(bind: str) -> socket.socket:
    host, port = host_and_port(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServerError(f"cannot serve HTTP at {bind}: {error.strerror or error}") from error


def _application(
    state: Callable[[], Mapping[str, Any]], registry: CollectorRegistry, health: Check, ready: Check
) -> Starlette:
    # Coroutines, though nothing in them waits: functions would be run by further threads.
    async def state_json(_: Request) -> Response:
        return JSONResponse(state(), headers=_HEADERS)

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers=_HEADERS | {"Content-Type": content_type})

    pages = [Route(path, _page(*file)) for path, file in _PAGE.items()]
    return Starlette(
        routes=[
            *pages,
            Route("/state.json", state_json),
            Route("/metrics", metrics),
            Route("/healthz", _checked(health)),
            Route("/readyz", _checked(ready)),
        ]
    )


def _page(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = resources.files("purgatory.service").joinpath("dashboard", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return answer


def _checked(check: Check) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        trouble = check()
        return PlainTextResponse(
            f"{trouble or 'ok'}\n", status_code=503 if trouble else 200, headers=_HEADERS
        )

    return answer
