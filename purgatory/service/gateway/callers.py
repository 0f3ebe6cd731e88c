"""Callers: each token's rights and its connection to the server.

A client name has a connection, made with its first request, a second while streams of its outcomes
are open, and more for taking jobs. Used by the gateway's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request

from purgatory.service.auth.access import Access
from purgatory.service.auth.token_store import TokenStore
from purgatory.service.client.async_client import AsyncClient
from purgatory.service.client.client import Client
from purgatory.service.client.outcomes import OnOutcome
from purgatory.service.errors import KeysError, NotAllowed
from purgatory.service.gateway.count_feed import CountFeed
from purgatory.service.gateway.job_taker import JobTakers
from purgatory.service.gateway.outcome_feed import OutcomeFeed
from purgatory.service.gateway.problems import ApiError
from purgatory.service.http.listening import KNOWN
from purgatory.service.rare_log import RareLog


class Caller(NamedTuple):
    """The rights of a request's token, and its name's connections.

    `check` raises ApiError or NotAllowed once the token is revoked or lacks the right. Handlers
    call `check` after each wait.
    """

    access: Access
    check: Callable[[], object]
    client: AsyncClient
    feed: OutcomeFeed
    takers: JobTakers
    counts: CountFeed
    max_wait: float

    def seen(self, client: str | None) -> str | None:
        """Return the client that a request is about; None: all. Raises NotAllowed."""
        if not self.access.own_only:
            return client
        if client not in (None, self.name):
            raise NotAllowed(
                f"client is {client!r}; this token is for {self.name!r}, without 'administer'"
            )
        return self.name

    @property
    def name(self) -> str:
        """The name of the client."""
        return self.access.label

    def end_waits(self) -> None:
        """End the streams and the waits for jobs."""
        self.feed.close()
        self.counts.close()
        self.takers.end()

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.gather(self.client.close(), self.takers.close())


class Callers:
    """Finds the caller of a request by its token, `Authorization: Bearer TOKEN`.

    A request waits up to `max_wait` seconds for jobs.
    """

    def __init__(self, tokens: TokenStore, connector: Connector, max_wait: float) -> None:
        self._tokens = tokens
        self._connector = connector
        self._max_wait = max_wait
        self._callers: dict[str, Caller] = {}  # the first of each name
        self._unreadable = RareLog("no token is accepted: %s")
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, request: Request, right: str | None) -> Caller:
        """Return the caller of a request; connect its name at the first call.

        Raises ApiError without a good token, NotAllowed without the right.
        """
        access = self._allowed(request, right)
        check = partial(self._allowed, request, right)
        name = access.label
        known = self._callers.get(name)
        if known is not None and known.client.refusal is not None:
            self._retire(self._callers.pop(name))  # the server may allow the name by now
        if name not in self._callers:
            client = self._connector.client(name)
            feed = OutcomeFeed(client, partial(self._connector.taker, name))
            takers = JobTakers(partial(self._connector.client, name))
            counts = CountFeed(client, name)
            self._callers[name] = Caller(
                access, check, client, feed, takers, counts, self._max_wait
            )
        return self._callers[name]._replace(access=access, check=check)

    def _allowed(self, request: Request, right: str | None) -> Access:
        access = self.access_of(request)
        if right is not None:
            check_right(access, right)
        return access

    def access_of(self, request: Request) -> Access:
        """Return the rights of a request's token. Raises ApiError."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise ApiError(401, "token", "expected a token: Authorization: Bearer TOKEN")
        access = self._find(token.strip())
        if access is None:
            raise ApiError(401, "token", "the token is unknown or revoked; expected another one")
        setattr(request.state, KNOWN, True)  # other connections are closed first
        return access

    def _find(self, token: str) -> Access | None:
        try:
            return self._tokens.find(token)
        except KeysError as error:  # its text is not for peers
            self._unreadable.add(str(error))
            text = "the gateway cannot read its tokens: its log says why"
            raise ApiError(503, "unavailable", text) from error

    def _retire(self, caller: Caller) -> None:
        caller.end_waits()
        closing = asyncio.create_task(caller.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def end_waits(self) -> None:
        """See `Caller`."""
        for caller in self._callers.values():
            caller.end_waits()

    async def close(self) -> None:
        """Close all connections."""
        callers = list(self._callers.values())
        self._callers.clear()
        await asyncio.gather(*[caller.close() for caller in callers], *self._closing)


def check_right(access: Access, right: str) -> None:
    """Raise NotAllowed without a right."""
    if not access.has(right):
        given = ", ".join(access.rights)
        raise NotAllowed(f"this needs the right {right!r}; this token has {given}")


class Connector:
    """Connects to `address`, with `options` of `Client`."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options

    def client(self, name: str) -> AsyncClient:
        """Return a client of a name."""
        return AsyncClient(self._address, **self._options | {"name": name})

    def taker(self, name: str, on_outcome: OnOutcome) -> Client:
        """Return a client that takes the outcomes of a name."""
        return Client(self._address, **self._options | {"name": name, "on_outcome": on_outcome})
