"""The OpenAPI document, made of the endpoints and their types. Any thread."""

import inspect
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from purgatory.service.gateway.endpoint import EVENTS, JSON, PLACES, Endpoint
from purgatory.service.gateway.messages import Problem

_DESCRIPTION: Final = """\
Delayed operations: each completes when a watch key is completed, or expires at its timeout, once.
A change is on disk before its answer, but for leases and acknowledgements of outcomes. Errors are a
`Problem`. Without an answer a change may still happen: a request with an id may be sent again."""
# The errors that endpoints may answer.
_PROBLEMS: Final = {
    400: "the request has an invalid value",
    401: "the token is missing or unknown",
    403: "the token lacks the right",
    404: "the operation, job or repeat is not known",
    409: "the id belongs to another client, or an operation and a job would share it",
    413: "the request is too large",
    421: "the request names another host",
    429: "there are too many operations, or requests that wait, for now",
    503: "the server cannot be reached, or its disk fails",
    504: "the server did not answer in time",
}


def document(endpoints: Iterable[Endpoint]) -> bytes:
    """Return the document as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    types = [Problem]
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
        types += [kind for kind in (each.described, None if each.streams else each.reply) if kind]
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    security = {"token": {"type": "http", "scheme": "bearer"}}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "timer-purgatory", "version": "1", "description": _DESCRIPTION},
            "servers": [{"url": "/"}],
            "paths": paths,
            "components": {"schemas": schemas, "securitySchemes": security},
        }
    )


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.streams:
        content: dict[str, Any] = {EVENTS: {"schema": {}}}
    else:
        content = _json(endpoint.reply)
    answer = {"description": HTTPStatus(endpoint.status).phrase, "content": content}
    problems = {
        str(status): {"description": text, "content": _json(Problem)}
        for status, text in _PROBLEMS.items()
    }
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint.path, endpoint.handler.__name__),
        "summary": endpoint.summary,
        "description": inspect.getdoc(endpoint.handler),
        "security": [{"token": []}],
        "parameters": _parameters(endpoint),
        "responses": {str(endpoint.status): answer, **problems},
    }
    if endpoint.described is not None:
        operation["requestBody"] = {"required": True, "content": _json(endpoint.described)}
    return operation


def _operation_id(path: str, handler: str) -> str:
    words = re.sub(r"\{(\w+)\}", lambda found: "" if found[1] in handler else found[1], path)
    return "".join(word.capitalize() for word in re.findall(r"[a-z0-9]+", f"{words} {handler}"))


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    for name, (place, key) in PLACES.items():
        if name in endpoint.takes:
            wanted = endpoint.takes[name]
            schema = msgspec.json.schema(wanted.annotation) | {"default": wanted.default}
            found.append({"name": key, "in": place, "required": False, "schema": schema})
    return found


def _json(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
