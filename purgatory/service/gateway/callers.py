"""Callers: what each token may do, and the connection to the server that it has.

A client name has one connection, made with its first request, and one more while streams of its
outcomes are open. Used by the gateway's event loop.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, NamedTuple

from litestar import Request
from litestar.connection import ASGIConnection

from purgatory.service.auth.access import Access
from purgatory.service.auth.token_store import TokenStore
from purgatory.service.client.async_client import AsyncClient
from purgatory.service.errors import NotAllowed
from purgatory.service.gateway.connector import Connector
from purgatory.service.gateway.outcome_feed import OutcomeFeed
from purgatory.service.gateway.problems import ApiError


class Caller:
    """A request's client, as far as its token goes."""

    def __init__(self, access: Access, connection: _Connection) -> None:
        self.access = access
        self.client = connection.client
        self.feed = connection.feed

    @property
    def name(self) -> str:
        """The name of the client, to which its operations belong."""
        return self.access.label


class _Connection(NamedTuple):
    client: AsyncClient
    feed: OutcomeFeed


class Callers:
    """Finds the caller of a request by its token, `Authorization: Bearer TOKEN`."""

    def __init__(self, tokens: TokenStore, connector: Connector) -> None:
        self._tokens = tokens
        self._connector = connector
        self._connections: dict[str, _Connection] = {}

    async def of(self, request: Request[Any, Any, Any]) -> Caller:
        """Return the caller of a request. Raises ApiError if there is none."""
        access = self.access_of(request)
        connection = self._connections.get(access.label)
        if connection is None:
            connection = self._connections[access.label] = self._connect(access.label)
        return Caller(access, connection)

    def access_of(self, request: ASGIConnection[Any, Any, Any, Any]) -> Access:
        """Return what a request's token may do. Raises ApiError without a good one."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        access = self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None
        if access is None:
            raise ApiError(401, "token", "expected a token: Authorization: Bearer TOKEN")
        return access

    def _connect(self, name: str) -> _Connection:
        feed = OutcomeFeed(partial(self._connector.taker, name))
        return _Connection(self._connector.client(name), feed)

    def end_streams(self) -> None:
        """End the streams of outcomes, which would go on for ever."""
        for connection in self._connections.values():
            connection.feed.close()

    async def close(self) -> None:
        """Close all connections."""
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*[connection.client.close() for connection in connections])


def check_right(access: Access, right: str) -> None:
    """Raise NotAllowed unless a token has a right."""
    if not access.has(right):
        given = ", ".join(access.rights)
        raise NotAllowed(f"this needs the right {right!r}; this token has {given}")
