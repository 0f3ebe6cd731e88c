"""JournalCollector: a journal's figures for Prometheus, read at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from purgatory.service.server.journal.journal_stats import JournalStats


class JournalCollector(Collector):
    """Shows what `stats` returns, as `purgatory_journal_...`. Any thread may scrape."""

    def __init__(self, stats: Callable[[], JournalStats]) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics of this moment."""
        stats = self._stats()
        yield _gauge("waiting_rows", "Rows committed but in no file yet", stats.waiting_rows)
        yield _gauge("lag_seconds", "Seconds that the oldest of these has waited", stats.lag_s)
        text = "1 if rows wait in the store until the server is started again, else 0"
        yield _gauge("behind", text, int(stats.is_behind))
        text = "Attempts to write that failed"
        yield CounterMetricFamily("purgatory_journal_failures", text, stats.failures)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"purgatory_journal_{name}", text, value)
