"""The figures of a server, its journal and its process for Prometheus, read at each scrape."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from purgatory.service.job_messages import JOB_STATES
from purgatory.service.protocol import VERSION
from purgatory.service.server.jobs.kind_figures import kind_figures
from purgatory.service.server.stats import COUNTER, GAUGE, OUTCOME, PURGATORY
from purgatory.service.server.store_activity import COMMIT_BOUNDS_S
from purgatory.version import package_version

if TYPE_CHECKING:
    from purgatory.service.server.journal.journal_sink import JournalStats
    from purgatory.service.server.server import Server

_FAMILIES: Final = {GAUGE: GaugeMetricFamily, COUNTER: CounterMetricFamily}


class ServerCollector(Collector):
    """Shows the statistics of `server`, as `purgatory_server_...`. Any thread may scrape.

    `refused_handshakes` returns how many connections had no allowed key. The number of pending
    operations is among the purgatory's own metrics. Of the clients there is no series each, for a
    program may use a new name in each run: there is their number, and the depth of the largest.
    """

    def __init__(self, server: Server, refused_handshakes: Callable[[], int]) -> None:
        self._server = server
        self._refused_handshakes = refused_handshakes

    def describe(self) -> Iterable[Metric]:
        """Return the metrics, so that a registry can detect clashing names."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment."""
        stats = self._server.stats()
        text = "Operations that ended, once it is on disk"
        outcomes = CounterMetricFamily("purgatory_server_outcomes", text, labels=["outcome"])
        for each in fields(stats):
            kind, value = each.metadata["kind"], getattr(stats, each.name)
            if kind == OUTCOME:
                outcomes.add_metric((each.name,), value)
            elif kind == PURGATORY:
                yield GaugeMetricFamily(f"purgatory_{each.name}", each.metadata["text"], value)
            elif kind in _FAMILIES:
                yield _FAMILIES[kind](f"purgatory_server_{each.name}", each.metadata["text"], value)
        yield outcomes
        text = "Connections refused for want of an allowed key"
        name = "purgatory_server_refused_handshakes"
        yield CounterMetricFamily(name, text, self._refused_handshakes())
        yield from self._distributions()
        yield from self._jobs()
        yield from self._disk()

    def _distributions(self) -> Iterable[Metric]:
        activity, depths = self._server.activity, self._server.state.clients.depths()
        bounds = [*map(str, COMMIT_BOUNDS_S), "+Inf"]
        buckets = list(zip(bounds, accumulate(activity.commit_counts), strict=True))
        name = "purgatory_server_commit_duration_seconds"
        text = "How long transactions took"
        yield HistogramMetricFamily(name, text, buckets, activity.commit_seconds)
        text = "Clients that have operations, outcomes or connections"
        yield GaugeMetricFamily("purgatory_server_clients", text, depths.clients)
        text = "Pending operations and unacknowledged outcomes of the client that has most"
        yield GaugeMetricFamily("purgatory_server_largest_client", text, depths.largest)

    def _jobs(self) -> Iterable[Metric]:
        """Yield the jobs of each kind; the kinds are bounded, see `kind_figures`."""
        jobs = GaugeMetricFamily("purgatory_jobs", "Jobs by state", labels=["kind", "state"])
        text = "Seconds that the oldest ready job has waited"
        oldest = GaugeMetricFamily("purgatory_jobs_oldest_ready_seconds", text, labels=["kind"])
        text = "Connections of workers that take the kind"
        workers = GaugeMetricFamily("purgatory_jobs_workers", text, labels=["kind"])
        for each in kind_figures(self._server.state, self._server.now_ms()):
            for state, count in zip(JOB_STATES, each.counts, strict=True):
                jobs.add_metric((each.kind, state), count)
            oldest.add_metric((each.kind,), each.oldest_ready_s)
            workers.add_metric((each.kind,), each.workers)
        yield from (jobs, oldest, workers)

    def _disk(self) -> Iterable[Metric]:
        database = self._server.config.database
        if database is None:
            return
        with suppress(OSError):  # the directory is gone: the server says so itself
            usage = shutil.disk_usage(database.parent)
            text = "Size of the file system of the data directory"
            yield GaugeMetricFamily("purgatory_server_disk_bytes", text, usage.total)
            text = "Bytes that are free there for the server's user"
            yield GaugeMetricFamily("purgatory_server_disk_free_bytes", text, usage.free)


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
    build = {
        "version": package_version(),
        "protocol": str(VERSION),
        "python": platform.python_version(),
    }
    Info("purgatory_build", "The version of this program", registry=registry).info(build)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
