"""Connector: makes the connections of a gateway to its server. Any thread."""

from typing import Any

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.client.client import Client
from purgatory.service.client.outcomes import OnOutcome


class Connector:
    """Connects to the server at `address`; `options` are those of `Client`, but for the name."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options

    def client(self, name: str) -> AsyncClient:
        """Return a client of a name."""
        return AsyncClient(self._address, **self._options | {"name": name})

    def taker(self, name: str, on_outcome: OnOutcome) -> Client:
        """Return a client that takes the outcomes of a name."""
        return Client(self._address, **self._options | {"name": name, "on_outcome": on_outcome})
