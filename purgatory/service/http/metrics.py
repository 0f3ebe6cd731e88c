"""The figures of a server, its journal and its process for Prometheus, read at each scrape."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from purgatory.service.protocol import VERSION
from purgatory.service.server.records.clients import ClientDepths
from purgatory.service.server.stats import ServerStats
from purgatory.service.server.store_activity import COMMIT_BOUNDS_S, CommitTimes
from purgatory.service.version import package_version

if TYPE_CHECKING:
    from purgatory.service.server.journal.journal_stats import JournalStats

# Values of the moment; all others are counters, from the start of the server.
_GAUGES: Final = {
    "held": "Events held for operations that are submitted later",
    "jobs_waiting": "Jobs that are due and wait for a worker, or for their next attempt",
    "jobs_leased": "Jobs that workers have",
    "jobs_dead": "Jobs that were given up",
    "unacknowledged": "Outcomes kept for their clients",
    "connections": "Connections that said hello",
    "store_backlog": "Requests that the store thread has not taken yet",
    "store_bytes": "Size of the database and its log",
    "uptime_seconds": "Seconds since the start",
    "memory_bytes": "Memory that the process takes, by estimate",
    "max_memory_bytes": "Memory that the process may take; 0: any",
    "ready": "1 if the server is ready, else 0",
    "last_commit_age_seconds": "Seconds since a commit last succeeded",
    "oldest_due_age_seconds": "Seconds that the oldest due outcome that is not on disk is late",
    "next_due_seconds": "Seconds until something may be due; -1 if nothing waits",
    "failing_seconds": "Seconds for which all commits have failed",
}
_COUNTERS: Final = {
    "messages": "Messages read from clients",
    "submitted": "Operations submitted",
    "refused": "Requests, or operations of them, answered with an error",
    "commits": "Transactions",
    "commit_seconds": "Seconds that transactions took",
    "commit_failures": "Transactions that were undone",
}
_OUTCOMES: Final = ("completed", "failed", "expired", "cancelled")


class ServerCollector(Collector):
    """Shows what `stats` returns, as `purgatory_server_...`. Any thread may scrape.

    `refused_handshakes` returns how many connections had no allowed key. The number of pending
    operations is among the purgatory's own metrics. Of the clients there is no series each, for a
    program may use a new name in each run: there is their number, and the depth of the largest.
    """

    def __init__(
        self,
        stats: Callable[[], ServerStats],
        refused_handshakes: Callable[[], int],
        commit_times: Callable[[], CommitTimes],
        client_depths: Callable[[], ClientDepths],
    ) -> None:
        self._stats = stats
        self._refused_handshakes = refused_handshakes
        self._commit_times = commit_times
        self._client_depths = client_depths

    def describe(self) -> Iterable[Metric]:
        """Yield the metrics without samples, so that a registry can detect clashing names."""
        yield from (_gauge(name) for name in _GAUGES)
        yield from (_counter(name) for name in _COUNTERS)
        yield _outcomes()
        yield _refused_handshakes()
        yield _commit_histogram(CommitTimes((0,) * (len(COMMIT_BOUNDS_S) + 1), 0.0))
        yield from _client_gauges(ClientDepths(0, 0))

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment."""
        stats = self._stats()
        for name in _GAUGES:
            gauge = _gauge(name)
            gauge.add_metric((), getattr(stats, name))
            yield gauge
        for name in _COUNTERS:
            counter = _counter(name)
            counter.add_metric((), getattr(stats, name))
            yield counter
        outcomes = _outcomes()
        for outcome in _OUTCOMES:
            outcomes.add_metric((outcome,), getattr(stats, outcome))
        yield outcomes
        refused_handshakes = _refused_handshakes()
        refused_handshakes.add_metric((), self._refused_handshakes())
        yield refused_handshakes
        yield _commit_histogram(self._commit_times())
        yield from _client_gauges(self._client_depths())


def _gauge(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"purgatory_server_{name}", _GAUGES[name])


def _counter(name: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"purgatory_server_{name}", _COUNTERS[name])


def _outcomes() -> CounterMetricFamily:
    text = "Operations that ended, once it is on disk"
    return CounterMetricFamily("purgatory_server_outcomes", text, labels=["outcome"])


def _refused_handshakes() -> CounterMetricFamily:
    text = "Connections refused for want of an allowed key"
    return CounterMetricFamily("purgatory_server_refused_handshakes", text)


def _commit_histogram(times: CommitTimes) -> HistogramMetricFamily:
    bounds = [*map(str, COMMIT_BOUNDS_S), "+Inf"]
    buckets = list(zip(bounds, accumulate(times.counts), strict=True))
    name = "purgatory_server_commit_duration_seconds"
    return HistogramMetricFamily(name, "How long transactions took", buckets, times.sum_s)


def _client_gauges(depths: ClientDepths) -> Iterable[GaugeMetricFamily]:
    text = "Clients that have operations, outcomes or connections"
    yield GaugeMetricFamily("purgatory_server_clients", text, depths.clients)
    text = "Pending operations and unacknowledged outcomes of the client that has most"
    yield GaugeMetricFamily("purgatory_server_largest_client", text, depths.largest)


# Every figure is shown here, or among the purgatory's own metrics.
assert {field.name for field in fields(ServerStats)} == {
    "pending",
    *_GAUGES,
    *_COUNTERS,
    *_OUTCOMES,
}


class JournalCollector(Collector):
    """Shows what `stats` returns, as `purgatory_journal_...`. Any thread may scrape."""

    def __init__(self, stats: Callable[[], JournalStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment."""
        stats = self._stats()
        text = "Rows committed but in no file yet"
        yield GaugeMetricFamily("purgatory_journal_waiting_rows", text, stats.waiting_rows)
        text = "Seconds that the oldest of these has waited"
        yield GaugeMetricFamily("purgatory_journal_lag_seconds", text, stats.lag_s)
        text = "1 if rows wait in the store until the server is started again, else 0"
        yield GaugeMetricFamily("purgatory_journal_behind", text, int(stats.is_behind))
        text = "Attempts to write that failed"
        yield CounterMetricFamily("purgatory_journal_failures", text, stats.failures)


def register_process_metrics(registry: CollectorRegistry) -> None:
    """Have a registry show `purgatory_build_info`, `process_...` and `python_info`."""
    registry.register(_BuildCollector())
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)


class _BuildCollector(Collector):
    """Shows which program this is, in labels of a metric that is always 1."""

    def collect(self) -> Iterable[Metric]:
        """Yield the metric."""
        labels = {
            "version": package_version(),
            "protocol": str(VERSION),
            "python": platform.python_version(),
        }
        yield InfoMetricFamily("purgatory_build", "The version of this program", labels)
