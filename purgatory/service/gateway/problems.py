"""Problems: what the API answers if a request is refused, and with which status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi.datastructures import ResponseSpec

from purgatory.service import errors
from purgatory.service.errors import Refused, RequestTimeout, ServiceError
from purgatory.service.gateway.messages import Problem

log: logging.Logger = logging.getLogger(__name__)

# What a client may send again, later.
_TEMPORARY: Final = {429, 503, 504}
_RETRY_S: Final = "1"

_STATUS: Final[Mapping[type[Exception], int]] = {
    errors.Malformed: 400,
    errors.TooManyKeys: 400,
    errors.TimeoutTooLong: 400,
    errors.NotAllowed: 403,
    errors.OperationIdTaken: 409,
    errors.TooLarge: 413,
    errors.TooManyItems: 413,
    errors.TooManyReads: 429,
    errors.TooManyPending: 429,
    errors.TooManyHeld: 429,
    errors.RequestTimeout: 504,
}


_MEANING: Final = {
    400: "the request has a bad value",
    401: "there is no token, or none that is known",
    403: "the token has not the right",
    404: "the operation is not known",
    409: "the operation id belongs to another client",
    413: "the request is too large",
    421: "the request names another host",
    429: "there are too many operations, or requests that wait, for now",
    503: "the server cannot be reached, or its disk fails",
    504: "the server did not answer in time",
}


#: What each route may answer besides what it returns, for the OpenAPI document.
RESPONSES: Final[dict[int, ResponseSpec]] = {
    status: ResponseSpec(Problem, description=text) for status, text in _MEANING.items()
}


class ApiError(Exception):
    """A request that the API itself refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def problem_of(error: Exception) -> Problem:
    """Return what is answered for an error of the service or a bad value."""
    return Problem(_code(error), str(error))


def status_of(error: Exception) -> int:
    """Return the status for an error of the service or a bad value."""
    if isinstance(error, ApiError):
        return error.status
    if isinstance(error, ServiceError):
        return _STATUS.get(type(error), 503)
    return 400


def _code(error: Exception) -> str:
    if isinstance(error, (ApiError, Refused)):
        return error.code
    if isinstance(error, RequestTimeout):
        return "timeout"
    return "unavailable" if isinstance(error, ServiceError) else "malformed"


def _refuse(_: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    return _response(status_of(error), problem_of(error))


def _refuse_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """Answer for what the framework refuses: bad JSON, unknown paths and methods."""
    details: Any = error.extra if isinstance(error.extra, list) else []
    reasons = [f"{each.get('key', 'body')}: {each.get('message')}" for each in details]
    code = {404: "unknown", 405: "method", 413: "too-large"}.get(error.status_code, "malformed")
    answer = _response(error.status_code, Problem(code, "; ".join(reasons) or error.detail))
    if error.status_code == 405:
        answer.headers["Allow"] = ", ".join(_methods(request))
    return answer


def _methods(request: Request[Any, Any, Any]) -> list[str]:
    """Return the methods that a request's path has."""
    path = request.url.path
    found: set[str] = set()
    for template, handlers in request.app.route_handler_method_map.items():
        start, parameter, _ = template.partition("{")
        if path == template or (parameter and path.startswith(start)):
            found.update(handlers)
    return sorted(found)


def _fail(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """Answer for a fault of ours."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _response(500, Problem("internal", "the gateway failed; its log says more"))


def _response(status: int, problem: Problem) -> Response[Problem]:
    headers = {"Retry-After": _RETRY_S} if status in _TEMPORARY else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(problem, status_code=status, headers=headers)


#: What answers for each kind of error.
HANDLERS: Final[dict[int | type[Exception], Callable[..., Response[Problem]]]] = {
    ApiError: _refuse,
    ServiceError: _refuse,
    ValueError: _refuse,
    TypeError: _refuse,
    HTTPException: _refuse_http,
    Exception: _fail,
}
