"""WebServer: shows the figures of a server over HTTP. Read-only.

`/` is the live page with `/state.json` and `/history.json`, `/metrics` is for Prometheus;
`/healthz` tells whether the process works, `/readyz` whether it accepts requests. The thread
`purgatory-http` answers; any other thread may make and close a `WebServer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

import uvicorn
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.service.config import host_and_port
from purgatory.service.errors import ServerError
from purgatory.service.http.listening import (
    AcceptErrors,
    BoundedProtocol,
    listen,
    server_config,
    url_of,
)
from purgatory.service.http.request_checks import HostCheck

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

log: logging.Logger = logging.getLogger(__name__)

#: Returns the trouble; empty if healthy.
Check = Callable[[], str]


class StatusSource(Protocol):
    """The reader of the page's figures; `StatusReader` is one."""

    @property
    def uptime_s(self) -> float:
        """Seconds since the figures began."""

    def read(self) -> dict[str, Any]:
        """Return the status for JSON."""

    def sample(self) -> tuple[float, ...]:
        """Return a row of the charts."""


Endpoint: TypeAlias = "Callable[[Request], Awaitable[Response]]"

_LISTEN_BACKLOG: Final = 128
# The charts' history: a row a second, and for an hour a row each half minute.
_HISTORY_S: Final = 120
_COARSE_S: Final = 30
_COARSE_ROWS: Final = 3600 // _COARSE_S

_PAGE: Final = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
    "/rings.js": ("rings.js", "text/javascript"),
    "/text.js": ("text.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

# The page is not framed, not cached, and loads nothing from other servers.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class WebServer:
    """Serves `status` and `registry` at `bind`, "host:port"; port 0 takes a free one.

    Also a context manager. `purgatory-http` calls `health` and `ready` for each request of them.
    `hosts`: names besides the one in `bind`. Raises ConfigError for a bad `bind`, ServerError if it
    cannot listen, or if the thread ends at once.
    """

    def __init__(
        self,
        bind: str,
        *,
        status: StatusSource,
        registry: CollectorRegistry,
        health: Check,
        ready: Check,
        hosts: Sequence[str] = (),
    ) -> None:
        self._socket = listen(bind)
        self.addr: str
        self.port: int
        self.addr, self.port = self._socket.getsockname()[:2]
        # Set once the thread answers, or has ended.
        self._up = threading.Event()
        self._error: Exception | None = None
        history = History(status, self._up.set)
        names = [host_and_port(bind)[0], *hosts]
        config = server_config(
            _application(history, status, registry, health, ready, names),
            http=BoundedProtocol,
            backlog=_LISTEN_BACKLOG,
        )
        self._server = uvicorn.Server(config)
        self._thread = InterruptibleThread(target=self._run, name="purgatory-http", daemon=True)
        self._thread.start()
        self._up.wait()
        if self._error is not None:
            raise ServerError(f"cannot serve HTTP at {bind}: {self._error!r}") from self._error

    @property
    def url(self) -> str:
        """The URL of the live page."""
        return url_of(self.addr, self.port) + "/"

    def _run(self) -> None:
        try:
            with contextlib.closing(self._socket):
                self._server.run(sockets=[self._socket])
        except Exception as error:
            self._error = error
            log.exception("HTTP has ended")
        finally:
            self._up.set()

    def close(self) -> None:
        """End within about a second. Idempotent."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class History:
    """The rows of the charts: of minutes, and of an hour."""

    def __init__(self, status: StatusSource, on_start: Callable[[], None]) -> None:
        self._status = status
        self._on_start = on_start
        self._rows: deque[tuple[float, ...]] = deque(maxlen=_HISTORY_S + 1)
        self._hour: deque[tuple[float, ...]] = deque(maxlen=_COARSE_ROWS + 1)

    async def write(self) -> None:
        """Add rows until cancelled."""
        while True:
            self.add(self._status.sample())
            await asyncio.sleep(1)

    def add(self, row: tuple[float, ...]) -> None:
        """Add a row; its first value is the uptime in seconds."""
        self._rows.append(row)
        if not self._hour or row[0] >= self._hour[-1][0] + _COARSE_S:
            self._hour.append(row)

    async def answer(self, _: Request) -> Response:
        """Respond with the rows, oldest first."""
        rows, hour = list(self._rows), self.coarse()
        return _json({"uptime_s": self._status.uptime_s, "rows": rows, "hour": hour})

    def coarse(self) -> list[tuple[float, ...]]:
        """Return the coarse rows of an hour, and the last row."""
        hour = list(self._hour)
        return hour if hour[-1:] == list(self._rows)[-1:] else [*hour, self._rows[-1]]

    @contextlib.asynccontextmanager
    async def recording(self, _: Starlette) -> AsyncIterator[None]:
        """Add rows while the application runs."""
        asyncio.get_running_loop().set_exception_handler(AcceptErrors())
        writing = asyncio.create_task(self.write())
        self._on_start()
        try:
            yield
        finally:
            writing.cancel()


def _application(
    history: History,
    status: StatusSource,
    registry: CollectorRegistry,
    health: Check,
    ready: Check,
    hosts: Sequence[str],
) -> Starlette:
    # Coroutines: Starlette would run functions in other threads.
    async def state_now(_: Request) -> Response:
        return _json(status.read())

    async def metrics(request: Request) -> Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
        except TypeError:  # a version that is no number
            encode, content_type = choose_encoder("")
        return Response(encode(registry), headers=_HEADERS | {"Content-Type": content_type})

    return Starlette(
        routes=[
            *(Route(path, _file(*file)) for path, file in _PAGE.items()),
            Route("/state.json", state_now),
            Route("/history.json", history.answer),
            Route("/metrics", metrics),
            Route("/healthz", _checked(health)),
            Route("/readyz", _checked(ready)),
        ],
        middleware=[Middleware(HostCheck, hosts=hosts)],
        lifespan=history.recording,
    )


def _json(content: object) -> Response:
    return JSONResponse(content, headers=_HEADERS)


def _file(name: str, kind: str) -> Endpoint:
    content = resources.files("purgatory.service.http").joinpath("dashboard", name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind, headers=_HEADERS)

    return answer


def _checked(check: Check) -> Endpoint:
    async def answer(_: Request) -> Response:
        trouble = check()
        text = f"{trouble or 'ok'}\n"
        return PlainTextResponse(text, status_code=503 if trouble else 200, headers=_HEADERS)

    return answer
