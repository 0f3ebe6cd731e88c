"""The console's files, `/console`: a page that asks the API with the user's token.

By its headers the page loads nothing from other servers and runs no inline script, no page can
frame it, and no text becomes markup (Trusted Types). Any thread.
"""

from importlib import resources
from typing import Final

from starlette.responses import Response

from purgatory.service.gateway.console.bundle import bundle

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
# Also of the live page.
_SHARED: Final = ("page.css", "text.js", "icon.svg")


def console_files() -> dict[str, Response]:
    """Return the answers by path; all modules are one file."""
    files = {each.name: each for each in (_PACKAGE / "gateway" / "console" / "page").iterdir()}
    files |= {name: _PACKAGE / "http" / "dashboard" / name for name in _SHARED}
    texts = {name: file.read_text("utf-8") for name, file in files.items()}
    modules = {name: text for name, text in texts.items() if name.endswith(".js")}
    page = texts.pop("index.html")
    others = {name: text for name, text in texts.items() if name not in modules}
    return {
        "/console": _file("index.html", page),
        "/console/console.js": _file("console.js", bundle(modules, "main.js")),
        **{f"/console/{name}": _file(name, text) for name, text in others.items()},
    }


def _file(name: str, content: str) -> Response:
    return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=_HEADERS)
