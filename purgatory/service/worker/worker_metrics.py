"""WorkerCollector: the metrics of a worker, read at each scrape. Any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory.metrics import MetricsServer
from purgatory.service.process_metrics import register_process_metrics
from timingwheel.lowlevel import check_count

if TYPE_CHECKING:
    from purgatory.service.worker.lease_returns import WorkerCounts


_MOST_PORT: Final = 65_535


class WorkerCollector(Collector):
    """Shows `counts` and the `running` handlers as `purgatory_worker_...`."""

    def __init__(self, counts: WorkerCounts, running: Callable[[], int], concurrency: int) -> None:
        self._counts = counts
        self._running = running
        self._concurrency = concurrency

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        text = "Attempts at jobs that have ended; lost: the lease had ended before"
        ended = CounterMetricFamily("purgatory_worker_attempts", text, labels=["outcome"])
        for outcome in ("done", "failed", "lost"):
            ended.add_metric([outcome], getattr(self._counts, outcome))
        yield ended
        text = "Handlers that run"
        yield GaugeMetricFamily("purgatory_worker_running_handlers", text, self._running())
        text = "Plain handlers that run at a time, at most, and as many coroutine functions"
        yield GaugeMetricFamily("purgatory_worker_concurrency", text, self._concurrency)


def checked_port(port: int | None) -> int | None:
    """Return a port, or None. Raises TypeError and ValueError."""
    return None if port is None else check_count("metrics_port", port, 0, _MOST_PORT)


def serve_worker_metrics(port: int, addr: str, collector: WorkerCollector) -> MetricsServer:
    """Serve the metrics of a worker and its process; port 0 takes a free one.

    Raises MetricsError.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    register_process_metrics(registry)
    return MetricsServer(port, addr, registry)
