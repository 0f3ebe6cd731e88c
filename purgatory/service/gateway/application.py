"""The application: the routes of the API, what guards them, and its OpenAPI document."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from litestar import Litestar, MediaType, Request, Router, get
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme

from purgatory.service.gateway.callers import Caller, Callers, check_right
from purgatory.service.gateway.leases import finish, give_back, keep, take
from purgatory.service.gateway.operations import (
    cancel,
    change_key,
    extend,
    look,
    schedule,
    submit,
    submit_batch,
)
from purgatory.service.gateway.outcomes import acknowledge, follow, unread
from purgatory.service.gateway.problems import HANDLERS
from purgatory.service.http.request_checks import HostCheck, OriginCheck

#: Bytes of a request's body.
MAX_BODY_BYTES: Final = 1 << 20

_DESCRIPTION: Final = """\
Delayed operations: each completes when a watch key is completed, or expires at its timeout, once.
All that is answered is on disk. Errors are a `Problem`; requests may be sent again."""


def make_application(callers: Callers, hosts: Sequence[str]) -> Litestar:
    """Return the application. `hosts`: the names by which requests may call this machine."""

    @contextlib.asynccontextmanager
    async def connections(_: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await callers.close()

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
    ) -> None:
        right = handler.opt.get("right")
        if right is not None:  # Litestar's own answer to OPTIONS has none
            check_right(callers.access_of(connection), right)

    # A function, because Litestar copies what it is given, and would copy the callers of a method.
    async def caller_of(request: Request[Any, Any, Any]) -> Caller:
        return await callers.of(request)

    api = Router(
        "/",
        route_handlers=[
            *(submit, submit_batch, schedule, look, extend, cancel, change_key),
            *(unread, follow, acknowledge),
            *(take, keep, finish, give_back),
        ],
        guards=[guard],
        dependencies={"caller": Provide(caller_of)},
        security=[{"token": []}],
    )
    return Litestar(
        [api, healthy],
        lifespan=[connections],
        exception_handlers=HANDLERS,
        openapi_config=_document(),
        request_max_body_size=MAX_BODY_BYTES,
        middleware=[DefineMiddleware(_checked, hosts=hosts)],
        logging_config=None,
    )


def _checked(app: Any, hosts: Sequence[str]) -> Any:
    """Return the checks before `app`: the same ASGI, by the types of another framework."""
    return HostCheck(OriginCheck(app), hosts)


@get("/healthz", media_type=MediaType.TEXT, include_in_schema=False)
async def healthy() -> str:
    """Tell that the gateway answers; whether the server does, requests tell."""
    return "ok\n"


def _document() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="timer-purgatory",
        version="1",
        description=_DESCRIPTION,
        path="/v1",
        render_plugins=[JsonRenderPlugin(path="/openapi.json")],
        components=Components(
            security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}
        ),
    )
