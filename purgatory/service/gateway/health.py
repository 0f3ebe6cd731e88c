"""Health: the gateway's readiness and metrics, without a token. Used by its event loop."""

import asyncio
from collections.abc import Iterable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse, Response

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.errors import Refused, ServiceError
from purgatory.service.gateway.callers import Connector
from purgatory.service.process_metrics import register_process_metrics

#: Seconds that the server has to answer.
PATIENCE_S: Final = 2.0
# The gateway's own client name.
_NAME: Final = "gateway"
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Health(Collector):
    """Asks the server over an own connection, made at the first question."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._client: AsyncClient | None = None
        self._asked: asyncio.Task[str] | None = None  # shared by all requests meanwhile
        self._registry = CollectorRegistry()
        self._registry.register(self)
        register_process_metrics(self._registry)
        self._requests: dict[tuple[str, str], int] = {}
        #: Requests under way.
        self.open: int = 0

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        text = "Requests answered, but for other hosts and sites; streams count when they begin"
        labels = ["method", "status"]
        requests = CounterMetricFamily("purgatory_gateway_requests", text, labels=labels)
        for key, count in self._requests.items():
            requests.add_metric(key, count)
        yield requests
        text = "Requests and streams that are open"
        yield GaugeMetricFamily("purgatory_gateway_open_requests", text, self.open)

    def answered(self, method: str, status: int) -> None:
        """Count an answer."""
        key = (method if method in _METHODS else "other", str(status))
        self._requests[key] = self._requests.get(key, 0) + 1

    async def readiness(self) -> Response:
        """Answer 200 if the server answers, else 503 and why."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.ensure_future(self._trouble())
        try:
            async with asyncio.timeout(PATIENCE_S):
                trouble = await asyncio.shield(self._asked)
        except TimeoutError:
            trouble = f"the server does not answer within {PATIENCE_S:g} s"
        if trouble:
            return PlainTextResponse(f"{trouble}\n", 503)
        return PlainTextResponse("ready\n")

    async def _trouble(self) -> str:
        if self._client is not None and self._client.refusal is not None:
            # It gives the same answer without a server.
            refused, self._client = self._client, None
            await refused.close(0)
        if self._client is None:
            self._client = self._connector.client(_NAME)
        try:
            await self._client.stats()
        except ServiceError as error:
            return "" if isinstance(error, Refused) else str(error)  # a refusal is an answer, too
        return ""

    async def metrics(self) -> Response:
        """Answer with the metrics."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def close(self) -> None:
        """Close the connection."""
        if self._asked is not None:
            self._asked.cancel()
        if self._client is not None:
            await self._client.close(0)
