"""The application: the routes of the API, and their guards."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from purgatory.service.gateway import access, counts, jobs, leases, operations, outcomes, repeats
from purgatory.service.gateway.callers import Callers
from purgatory.service.gateway.console.files import console_files
from purgatory.service.gateway.document import document
from purgatory.service.gateway.endpoint import Endpoint
from purgatory.service.gateway.health import Health
from purgatory.service.gateway.problems import answer_to, refusal
from purgatory.service.http.request_checks import HostCheck, OriginCheck

ENDPOINTS: Final = (
    *(
        operations.submit,
        operations.submit_batch,
        operations.list_operations,
        operations.look,
        operations.extend,
        operations.cancel,
        operations.change_key,
    ),
    *(jobs.schedule, jobs.list_jobs, jobs.look, jobs.reschedule, jobs.cancel, jobs.run, jobs.retry),
    *(jobs.cancel_matching, jobs.retry_dead, access.look),
    *(counts.count, counts.follow, jobs.list_limits, jobs.limit),
    *(repeats.list_repeats, repeats.look, repeats.declare, repeats.delete),
    *(repeats.run, repeats.pause, repeats.resume),
    *(outcomes.unread, outcomes.follow, outcomes.acknowledge),
    *(leases.take, leases.keep, leases.finish, leases.give_back),
)

_DOCUMENT: Final = Response(document(ENDPOINTS), media_type="application/vnd.oai.openapi+json")
_Answer = Endpoint | Response | Callable[[Health], Awaitable[Response]]
# By path, or its part before a name, and by method. Only endpoints need a token.
_METHODS: Final[dict[str, dict[str, _Answer]]] = {
    "/healthz": {"GET": PlainTextResponse("ok\n")},
    "/readyz": {"GET": Health.readiness},
    "/metrics": {"GET": Health.metrics},
    "/v1": {"GET": _DOCUMENT},
    "/v1/openapi.json": {"GET": _DOCUMENT},
    **{path: {"GET": answer} for path, answer in console_files().items()},
}
_ACTIONS: Final = [each for each in ENDPOINTS if each.suffix]
for each in ENDPOINTS:
    if each not in _ACTIONS:
        _METHODS.setdefault(each.prefix, {})[each.method] = each
for methods in _METHODS.values():
    if "GET" in methods:
        methods["HEAD"] = methods["GET"]  # the HTTP server leaves the content out


def make_application(callers: Callers, health: Health, hosts: Sequence[str]) -> Starlette:
    """Return the application. `hosts`: permitted host names in requests."""

    @contextlib.asynccontextmanager
    async def connections(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await health.close()
            await callers.close()

    return Starlette(
        routes=[Route("/{path:path}", _Api(callers, health))],
        middleware=[Middleware(HostCheck, hosts=hosts, setting="--hosts"), Middleware(OriginCheck)],
        lifespan=connections,
    )


class _Api:
    def __init__(self, callers: Callers, health: Health) -> None:
        self._callers = callers
        self._health = health

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self._health.open += 1
        try:
            try:
                response = await self._answer(request)
            except ClientDisconnect:  # within the body: the client reads no answer
                return
            except Exception as error:  # noqa: BLE001  # answered, if need be with 500
                response = answer_to(request, error)
            self._health.answered(request.method, response.status_code)
            await response(scope, receive, send)
        finally:
            self._health.open -= 1

    async def _answer(self, request: Request) -> Response:
        methods = _methods_of(request.scope)
        if not methods:
            return refusal(404, "unknown", "the path is not known; see /v1/openapi.json")
        found = methods.get(request.method)
        if found is None:
            allow = {"Allow": ", ".join(sorted([*methods, "OPTIONS"]))}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=allow)
            expected = f"method is {request.method}; expected {allow['Allow']}"
            return refusal(405, "method", expected, allow)
        if isinstance(found, Response):
            return found
        if not isinstance(found, Endpoint):
            return await found(self._health)
        return await found.answer(request, self._callers.of(request, found.right))


def _methods_of(scope: Scope) -> dict[str, _Answer]:
    raw_path: bytes = scope["raw_path"]
    for prefix, methods in _METHODS.items():
        if prefix.endswith("/") and raw_path[: len(prefix)] == prefix.encode() != raw_path:
            return _actions_of(prefix, raw_path.decode("latin-1")) or methods
    return _METHODS.get("/" + "/".join(filter(None, scope["path"].split("/"))), {})


def _actions_of(prefix: str, path: str) -> dict[str, _Answer]:
    rest = path.removeprefix(prefix)
    return {
        each.method: each
        for each in _ACTIONS
        if each.prefix == prefix and rest.endswith(each.suffix) and rest != each.suffix
    }
