"""Prometheus metrics of a server and its journal, read at each scrape."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from purgatory.service.job_messages import JOB_STATES
from purgatory.service.server.jobs.job_timings import END_STATES, TIMING_BOUNDS_MS, JobTimings
from purgatory.service.server.jobs.kind_figures import kind_figures
from purgatory.service.server.journal.journal_sink import JournalStats
from purgatory.service.server.server import Server
from purgatory.service.server.stats import COUNTER, GAUGE, OUTCOME, PURGATORY
from purgatory.service.server.store_activity import COMMIT_BOUNDS_S

_FAMILIES: Final = {GAUGE: GaugeMetricFamily, COUNTER: CounterMetricFamily}


class ServerCollector(Collector):
    """Shows the statistics of `server`, as `purgatory_server_...`. Any thread may scrape.

    Clients have no series each: names may be new in each run.
    """

    def __init__(self, server: Server, refused_handshakes: Callable[[], int]) -> None:
        self._server = server
        self._refused_handshakes = refused_handshakes

    def describe(self) -> Iterable[Metric]:
        """Return the metrics: a registry detects clashing names."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
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
        """Yield the jobs of each of the bounded kinds, see `kind_figures`."""
        jobs = GaugeMetricFamily("purgatory_jobs", "Jobs by state", labels=["kind", "state"])
        text = "Seconds that the oldest ready job has waited"
        oldest = GaugeMetricFamily("purgatory_jobs_oldest_ready_seconds", text, labels=["kind"])
        text = "Workers that take the kind; if jobs wait, of the client name that has fewest"
        workers = GaugeMetricFamily("purgatory_jobs_workers", text, labels=["kind"])
        for each in kind_figures(self._server.state, self._server.now_ms()):
            for state, count in zip(JOB_STATES, each.counts, strict=True):
                jobs.add_metric((each.kind, state), count)
            oldest.add_metric((each.kind,), each.oldest_ready_ms / 1000)
            workers.add_metric((each.kind,), each.workers)
        yield from (jobs, oldest, workers)
        yield from job_timing_metrics(self._server.state.jobs.timings)

    def _disk(self) -> Iterable[Metric]:
        database = self._server.config.database
        if database is None:
            return
        with suppress(OSError):  # the directory is gone, as the server logs
            usage = shutil.disk_usage(database.parent)
            text = "Size of the file system of the data directory"
            yield GaugeMetricFamily("purgatory_server_disk_bytes", text, usage.total)
            text = "Bytes that are free there for the server's user"
            yield GaugeMetricFamily("purgatory_server_disk_free_bytes", text, usage.free)


_BOUNDS: Final = [*(f"{bound / 1000:g}" for bound in TIMING_BOUNDS_MS), "+Inf"]


def job_timing_metrics(timings: JobTimings) -> Iterable[Metric]:
    """Return the metrics of attempts at jobs, and of their ends."""
    text = "Seconds from ready to begun, of attempts that have ended"
    queue = HistogramMetricFamily("purgatory_job_queue_seconds", text, labels=["kind"])
    text = "Seconds that attempts took, as the server heard of them"
    duration = HistogramMetricFamily("purgatory_job_duration_seconds", text, labels=["kind"])
    text = "Attempts that have ended"
    attempts = CounterMetricFamily("purgatory_job_attempts", text, labels=["kind", "outcome"])
    text = "Jobs that have ended"
    ended = CounterMetricFamily("purgatory_jobs_ended", text, labels=["kind", "state"])
    for kind, each in list(timings.by_kind.items()):
        queue.add_metric([kind], _buckets(each.queued), each.queued_ms / 1000)
        duration.add_metric([kind], _buckets(each.ran), each.ran_ms / 1000)
        failed = each.failed_attempts
        attempts.add_metric((kind, "done"), each.attempts - failed)
        attempts.add_metric((kind, "failed"), failed)
        for state, count in zip(END_STATES, each.ended, strict=True):
            ended.add_metric((kind, JOB_STATES[state]), count)
    return queue, duration, attempts, ended


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    return [*zip(_BOUNDS, accumulate(counts), strict=True)]


class JournalCollector(Collector):
    """Shows the result of `stats`, as `purgatory_journal_...`. Any thread may scrape."""

    def __init__(self, stats: Callable[[], JournalStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
        stats = self._stats()
        text = "Rows committed but in no file yet"
        yield GaugeMetricFamily("purgatory_journal_waiting_rows", text, stats.waiting_rows)
        text = "Seconds that the oldest of these has waited"
        yield GaugeMetricFamily("purgatory_journal_lag_seconds", text, stats.lag_s)
        text = "1 if rows wait in the store until the server is started again, else 0"
        yield GaugeMetricFamily("purgatory_journal_behind", text, int(stats.is_behind))
        text = "Attempts to write that failed"
        yield CounterMetricFamily("purgatory_journal_failures", text, stats.failures)
