"""Endpoint: a method of a path. Used by the gateway's event loop."""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.problems import ApiError
from purgatory.service.gateway.reasons import reason_of
from purgatory.service.protocol import Request
from purgatory.service.verbs import VERBS

#: Most bytes of a request's body.
MAX_BODY_BYTES: Final = 1 << 20
#: The place and name of handlers' arguments in a request.
PLACES: Final = {
    "last_event_id": ("header", "Last-Event-ID"),
    **{
        name: ("query", name)
        for name in ("after", "state", "kind", "key", "tag", "client", "order", "limit", "cursor")
    },
}
#: For errors.
BODY: Final = "the body"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
# Methods without a body; some programs send one.
_BODILESS: Final = ("GET", "HEAD")
_EVENT_HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Connection": "keep-alive",
    "X-Accel-Buffering": "no",
}


class NoFields(msgspec.Struct, forbid_unknown_fields=True):
    """A body without fields; some programs send an empty object."""


class Endpoint:
    """A method of a path, answered by `handler` with `status`.

    A caller needs the right of `request`, if any. The types of the handler's arguments check
    requests: `caller`; `data`, the body; `name`, the text in the path; `request`; and the arguments
    in `PLACES`. The handler returns a struct, or yields events.
    """

    def __init__(
        self,
        method: str,
        path: str,
        request: type[Request] | None,
        summary: str,
        handler: Callable[..., Any],
        status: int,
    ) -> None:
        self.method = method
        self.path = path
        self.prefix: str = path.partition("{")[0]
        self.suffix: str = path.partition("}")[2]
        self.right: str | None = None if request is None else VERBS[request].right
        self.summary = summary
        self.handler = handler
        self.status = status
        signature = inspect.signature(handler, eval_str=True)
        self.takes = signature.parameters
        self.body: Any = self.takes["data"].annotation if "data" in self.takes else None
        #: The body's type in the document.
        self.described: Any = getattr(self.body, "described_as", self.body)
        self.reply: Any = signature.return_annotation
        self.queries: list[str] = [
            key for name, (place, key) in PLACES.items() if place == "query" and name in self.takes
        ]
        self.streams: bool = inspect.isasyncgenfunction(handler)

    async def answer(self, request: HttpRequest, caller: Caller) -> Response:
        """Answer a request. Raises ApiError, and the handler's errors."""
        _check_names(request, self.queries)
        given: dict[str, Any] = {"caller": caller, "request": request}
        if "name" in self.takes:
            given["name"] = _text(request.scope["raw_path"], self.prefix, self.suffix)
        for name in self.takes.keys() & PLACES:
            given[name] = self._parameter(request, name)
        if self.body is not None:
            given["data"] = decoded(await _body(request), self.body, BODY)
        elif request.method not in _BODILESS and (body := await _body(request)):
            decoded(body, NoFields, BODY)
        if self.streams and request.method == "HEAD":
            return Response(headers=_EVENT_HEADERS, media_type=EVENTS)
        reply = self.handler(**{name: given[name] for name in self.takes})
        if self.streams:
            return StreamingResponse(reply, headers=_EVENT_HEADERS, media_type=EVENTS)
        content = msgspec.json.encode(await reply)
        return Response(content, status_code=self.status, media_type=JSON)

    def _parameter(self, request: HttpRequest, name: str) -> Any:
        place, key = PLACES[name]
        value = (request.query_params if place == "query" else request.headers).get(key)
        wanted = self.takes[name]
        if value is None:
            return wanted.default
        # Else the text "null" would mean no filter.
        strict = not isinstance(wanted.default, int)
        kind = wanted.annotation
        return _checked(lambda: msgspec.convert(value, kind, strict=strict), key, kind)


def endpoint(
    method: str, path: str, request: type[Request] | None, summary: str, status: int = 200
) -> Callable[[Callable[..., Any]], Endpoint]:
    """Make an endpoint of a handler."""
    return lambda handler: Endpoint(method, path, request, summary, handler, status)


def decoded(body: bytes | msgspec.Raw, kind: type[msgspec.Struct], name: str) -> Any:
    """Decode JSON of a type. Raises ApiError."""
    if not body:
        raise ApiError(400, "malformed", f"{name} is empty; expected JSON")
    return _checked(lambda: _of_json(body, kind), name, kind)


def _of_json(body: bytes | msgspec.Raw, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        # msgspec takes half a surrogate pair near the end for a cut text.
        if "truncated" in str(error) and _is_whole(bytes(body)):
            raise msgspec.DecodeError("a text has half a surrogate pair") from error
        raise


def _is_whole(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _checked(decode: Callable[[], Any], name: str, kind: Any) -> Any:
    try:
        return decode()
    except msgspec.ValidationError as error:
        message = reason_of(str(error), name, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{name} is no JSON: {error}"
    raise ApiError(400, "malformed", message)


def _check_names(request: HttpRequest, expected: Sequence[str]) -> None:
    """Refuse unknown and repeated parameters: a misspelt filter would list all."""
    _unquoted(request.scope["query_string"], "query")  # Starlette replaces what is not UTF-8
    for name in request.query_params:
        if name not in expected:
            text = f"query has {name!r}; expected {', '.join(expected) or 'no parameter'}"
            raise ApiError(400, "malformed", text)
        if len(request.query_params.getlist(name)) > 1:
            raise ApiError(400, "malformed", f"query has {name!r} more than once; expected one")


async def _body(request: HttpRequest) -> bytes:
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ApiError(400, "malformed", f"Content-Encoding is {encoding!r}; expected plain JSON")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(413, "too-large", f"{BODY} has more than {MAX_BODY_BYTES:,} bytes")
    return bytes(body)


def _text(raw_path: bytes, prefix: str, suffix: str) -> str:
    """Return the text after `prefix` and before `suffix` in a request's path. Raises ApiError.

    The decoded path would not tell `a%2Fb` from `a/b`, nor keep `a//b`.
    """
    text = raw_path.removeprefix(prefix.encode()).removesuffix(suffix.encode())
    return _unquoted(text, "path")


def _unquoted(raw: bytes, name: str) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "malformed", f"{name} has {raw!r}; expected UTF-8") from error
