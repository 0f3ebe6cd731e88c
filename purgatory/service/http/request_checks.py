"""HostCheck and OriginCheck: refuse browsers' requests on behalf of foreign pages.

Another site's page can let its name resolve to this machine, and read this server's pages as its
own (DNS rebinding); but the browser sends the name. Addresses in digits are not resolved; a request
without a host is from no browser. For the event loop's thread.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_MISDIRECTED: Final = 421


class HostCheck:
    """Passes requests for `hosts`, "localhost" and addresses on to `app`, whatever the ports.

    A request for a whole URL, as a proxy gets, becomes one for the path of that URL. `setting`:
    where an operator adds hosts.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], setting: str = "http_hosts") -> None:
        self._app = app
        self._setting = setting
        self._hosts = {"", "localhost", *map(_normalised, map(_without_port, hosts))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        scope = _in_origin_form(scope)
        host = Headers(scope=scope).get("host", "") if scope["type"] == "http" else ""
        if self._is_known(_without_port(host)):
            await self._app(scope, receive, send)
            return
        text = f"this server is not {host!r}; name it in {self._setting} if it is\n"
        await PlainTextResponse(text, status_code=_MISDIRECTED)(scope, receive, send)

    def _is_known(self, host: str) -> bool:
        return _normalised(host) in self._hosts or _is_address(host)


def _in_origin_form(scope: Scope) -> Scope:
    """Return a request in `absolute-form` as one in `origin-form`: RFC 9112, 3.2.2.

    The host of the URL counts, not the header.
    """
    scheme, separator, rest = scope.get("raw_path", b"").partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        return scope
    host, _, path = rest.partition(b"/")
    headers = [(b"host", host), *(each for each in scope["headers"] if each[0] != b"host")]
    path = b"/" + path
    return {**scope, "headers": headers, "raw_path": path, "path": unquote(path.decode("ascii"))}


def _normalised(host: str) -> str:
    return host.strip().lower().removesuffix(".")


def _without_port(host: str) -> str:
    head, colon, port = host.rpartition(":")
    is_port = colon and (port.isdigit() or not port)
    return head if is_port and (":" not in head or head.endswith("]")) else host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


_FORBIDDEN: Final = 403


class OriginCheck:
    """Passes requests of this host's pages, and of no page, on to `app`.

    A browser cannot omit the page's site (`Origin`); other programs send none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        headers = Headers(raw=list(scope.get("headers", ())))
        origin = headers.get("origin", "")
        if not origin or origin.partition("://")[2] == headers.get("host"):
            await self._app(scope, receive, send)
            return
        problem = {"code": "origin", "message": f"pages of {origin!r} may not ask this server"}
        await JSONResponse(problem, status_code=_FORBIDDEN)(scope, receive, send)
