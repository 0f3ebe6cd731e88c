"""OriginCheck: refuses what a page of another site has a browser send.

A browser names the site with each such request (`Origin`), and cannot be made to leave that out.
Programs that are no browsers send none. A page of this host may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

_FORBIDDEN: Final = 403


class OriginCheck:
    """Passes requests of this host's pages, and of no page, on to `app`."""

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
        answer = JSONResponse(problem, status_code=_FORBIDDEN)
        await answer(scope, receive, send)  # type: ignore[arg-type]  # the same ASGI
