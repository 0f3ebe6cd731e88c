"""The figures of a server among others, for Prometheus, read at each scrape. Any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory.service.cluster.cluster_status import ClusterStatus, Role


class ClusterCollector(Collector):
    """Shows what `status` returns, as `purgatory_cluster_...`."""

    def __init__(self, status: Callable[[], ClusterStatus]) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Return the metrics, so that a registry can detect clashing names."""
        return _metrics(ClusterStatus(role=Role.STANDBY, address=""))

    def collect(self) -> Iterable[Metric]:
        """Yield the present metrics."""
        return _metrics(self._status())


def _metrics(status: ClusterStatus) -> Iterator[Metric]:
    is_active = status.role is Role.ACTIVE
    for name, text, value in (
        ("is_active", "1 if this server is active, 0 if it is not", int(is_active)),
        ("epoch", "The epoch of the lease; it grows with each takeover", status.epoch),
        ("standbys", "Servers that stand by", len(status.standbys)),
        (
            "replicated",
            "1 if commits wait for a synchronous standby of the database, else 0",
            int(bool(status.replicated)),
        ),
        ("last_beat_age_seconds", "Seconds since the last beat of the active server",
         status.beat_age_s),
        ("clock_drift_seconds", "Service time minus the clock of the database",
         status.drift_ms / 1000),
    ):  # fmt: skip
        yield GaugeMetricFamily(f"purgatory_cluster_{name}", text, value)
    text = "How often this process has taken over"
    yield CounterMetricFamily("purgatory_cluster_takeovers", text, status.takeovers)


class JoinedRegistry(CollectorRegistry):
    """A registry that shows the metrics of a second registry, too."""

    def __init__(self) -> None:
        super().__init__()
        #: The registry of the active server; None while there is none.
        self.joined: CollectorRegistry | None = None

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of both."""
        yield from super().collect()
        if (joined := self.joined) is not None:
            yield from joined.collect()
