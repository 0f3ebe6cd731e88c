"""Problems: the API's answers to refused requests."""

import logging
from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from purgatory.service import errors
from purgatory.service.errors import Refused, RequestTimeout, ServiceError
from purgatory.service.gateway.messages import Problem

log: logging.Logger = logging.getLogger(__name__)

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
    errors.ServerBusy: 429,
    errors.TooManyReads: 429,
    errors.TooManyPending: 429,
    errors.TooManyHeld: 429,
    errors.TooManyLeases: 429,
    errors.TooManyRemembered: 429,
    errors.TooManyRepeats: 429,
    errors.TooManySessions: 429,
    errors.RequestFailed: 500,  # the same request would fail again
    errors.RequestTimeout: 504,
}


class ApiError(Exception):
    """A request that the API itself refuses."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


def problem_of(error: Exception) -> Problem:
    """Return the problem of an error."""
    if isinstance(error, (ApiError, Refused)):
        code = error.code
    elif isinstance(error, RequestTimeout):
        code = "timeout"
    else:
        code = "unavailable" if isinstance(error, ServiceError) else "malformed"
    return Problem(code, str(error))


def answer_to(request: Request, error: Exception) -> Response:
    """Return the answer to a request that raised an error."""
    if isinstance(error, ApiError):
        status = error.status
    elif isinstance(error, ServiceError):
        status = _STATUS.get(type(error), 503)
    elif isinstance(error, (ValueError, TypeError)):
        status = 400
    else:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return refusal(500, "internal", "the gateway failed; see its log")
    problem = problem_of(error)
    return refusal(status, problem.code, problem.message)


def refusal(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer with a `Problem`."""
    more = dict(headers or {})
    if status in _TEMPORARY:
        more["Retry-After"] = _RETRY_S
    if status == 401:
        more["WWW-Authenticate"] = "Bearer"
    content = msgspec.json.encode(Problem(code, message))
    return Response(content, status_code=status, headers=more, media_type="application/json")
