"""Metrics of a stream for Prometheus, from its checkpoint and from Spark.

    metrics = StreamMetrics(stream)
    spark.streams.addListener(metrics)
    registry.register(metrics)

Spark calls the listener in one thread, a scrape calls `collect` in another. They share immutable
objects only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from purgatory.spark.stream.shard import TABLES
from purgatory.trace.validation import COMPLETED, EXPIRED, FAILED

if TYPE_CHECKING:
    from purgatory.spark.stream.query import Stream

_PREFIX = "purgatory_stream_"


class StreamMetrics(StreamingQueryListener, Collector):
    """Exposes the metrics of a stream, from its query and its checkpoint."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        # Written only by Spark's thread.
        self._run: UUID | None = None
        self._running = False
        self._progress: StreamingQueryProgress | None = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        if event.name == self._stream.name:
            self._run, self._running = event.runId, True

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        if event.progress.name == self._stream.name:
            self._progress = event.progress

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the last report stays."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        if event.runId == self._run:
            self._running = False

    def describe(self) -> Iterable[Metric]:
        """Return the metrics, for their names."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        entry, progress, counts = self._stream.entry, self._progress, self._stream.entry.counts
        last = progress.batchDuration / 1000 if progress else 0.0
        speed = progress.processedRowsPerSecond if progress else 0.0
        kept = "Events and extensions of instants that are not closed yet"
        for metric, text, value in (
            ("running", "1 while the query runs", int(self._running)),
            ("operations_pending", "Pending operations", entry.pending),
            ("events_kept", kept, entry.kept),
            ("event_time_seconds", "The last closed instant, Unix time", entry.closed_ms / 1000),
            ("batch_seconds", "Duration of the last micro-batch", last),
            ("rows_per_second", "Rows per second in the last micro-batch", speed),
        ):
            yield self._metric(GaugeMetricFamily, metric, text, (), {(): value})
        batches = {(): entry.batch + 1}
        yield self._metric(CounterMetricFamily, "batches", "Micro-batches committed", (), batches)
        ended = {(outcome,): counts[outcome] for outcome in (COMPLETED, FAILED, EXPIRED)}
        text = "Operations with an outcome"
        yield self._metric(CounterMetricFamily, "operations", text, ("outcome",), ended)
        rows = {
            (table, fate): counts[prefix + table]
            for table in TABLES
            for fate, prefix in (("taken", ""), ("late", "late_"), ("rejected", "rejected_"))
        }
        yield self._metric(CounterMetricFamily, "rows", "Rows of input", ("table", "fate"), rows)

    def _metric(
        self,
        kind: type[GaugeMetricFamily | CounterMetricFamily],
        metric: str,
        text: str,
        labels: Sequence[str],
        values: Mapping[Any, float],
    ) -> Metric:
        family = kind(_PREFIX + metric, text, labels=["name", *labels])
        for key, value in values.items():
            family.add_metric([self._stream.name, *key], value)
        return family
