"""The console's files, `/console`: a page that asks the API with a token that the user types.

The page loads nothing from other servers and runs no inline script. No page can frame it, and no
text becomes markup: the browser itself refuses (Trusted Types). Pure; any thread.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from starlette.responses import Response

_PACKAGE: Final = resources.files("purgatory.service")
_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        *(f"{each} 'none'" for each in ("base-uri", "form-action", "frame-ancestors")),
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# The live page has them, too.
_SHARED: Final = ("page.css", "text.js", "icon.svg")


def console_files() -> dict[str, Response]:
    """Return the answers by path."""
    found = {
        f"/console/{name}": _file(name, (_PACKAGE / "http" / "dashboard" / name).read_bytes())
        for name in _SHARED
    }
    for each in (_PACKAGE / "gateway" / "console" / "page").iterdir():
        path = "/console" if each.name == "index.html" else f"/console/{each.name}"
        found[path] = _file(each.name, each.read_bytes())
    return found


def _file(name: str, content: bytes) -> Response:
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)
