"""Metrics: plain integers of purgatories and timers, read when Prometheus asks for them.

Nothing on the hot path knows of Prometheus. A registry gets one collector, which shows all that
was registered there, told apart by the label ``name``.
"""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from purgatory.errors import PurgatoryError

if TYPE_CHECKING:
    from purgatory.purgatory import Purgatory
    from purgatory.stats import PurgatoryStats
    from timingwheel import TimerStats


class MetricsError(PurgatoryError):
    """Raised by `serve` when the address cannot be listened on; names it and says why."""


class PurgatoryCollector(Collector):
    """Shows the purgatories that ``members`` yields at each scrape, and their timers, once each."""

    def __init__(self, members: "Callable[[], Iterable[Purgatory]]") -> None:
        self._members = members

    def describe(self) -> Iterable[Metric]:
        """The metrics without samples, so that a registry can tell clashes of names."""
        return _families([], [])

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment. Any thread; takes no lock while it yields."""
        members = list(self._members())
        timers = {id(member.timer): member.timer for member in members}
        return _families(
            [member.stats() for member in members], [timer.stats() for timer in timers.values()]
        )


def _families(purgatories: "list[PurgatoryStats]", timers: "list[TimerStats]") -> Iterator[Metric]:
    yield _gauge(
        "purgatory_operations_pending",
        "Operations that wait",
        ((stats.name, stats.pending) for stats in purgatories),
    )
    yield _gauge(
        "purgatory_watch_entries",
        "Pairs of a pending operation and a watched key",
        ((stats.name, stats.watch_entries) for stats in purgatories),
    )
    yield _gauge(
        "purgatory_watched_keys",
        "Keys that an operation waits for",
        ((stats.name, stats.watched_keys) for stats in purgatories),
    )
    yield _outcomes(
        "purgatory_operations",
        "Operations that ended",
        purgatories,
        ("completed", "expired", "cancelled"),
    )
    yield _gauge(
        "timingwheel_timers_pending",
        "Tasks that wait in the wheel",
        ((stats.name, stats.pending) for stats in timers),
    )
    yield _outcomes("timingwheel_timers", "Tasks that ended", timers, ("fired", "cancelled"))
    yield _buckets(timers)
    cascades = CounterMetricFamily(
        "timingwheel_cascades", "Buckets placed again on a lower level", labels=["name"]
    )
    for stats in timers:
        cascades.add_metric([stats.name], stats.cascades)
    yield cascades
    yield _lateness(timers)
    yield _gauge(
        "timingwheel_executor_backlog",
        "Tasks that are due and have not started",
        ((stats.name, stats.executor_backlog) for stats in timers),
    )


def _gauge(name: str, text: str, values: Iterable[tuple[str, int]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["name"])
    for label, value in values:
        family.add_metric([label], value)
    return family


def _outcomes(
    name: str,
    text: str,
    members: "list[PurgatoryStats] | list[TimerStats]",
    outcomes: tuple[str, ...],
) -> Metric:
    family = CounterMetricFamily(name, text, labels=["name", "outcome"])
    for stats in members:
        for outcome in outcomes:
            family.add_metric([stats.name, outcome], getattr(stats, outcome))
    return family


def _buckets(timers: "list[TimerStats]") -> Metric:
    family = GaugeMetricFamily(
        "timingwheel_buckets_occupied", "Buckets that hold tasks", labels=["name", "level"]
    )
    for stats in timers:
        for level, count in enumerate(stats.buckets_occupied):
            family.add_metric([stats.name, str(level)], count)
    return family


def _lateness(timers: "list[TimerStats]") -> Metric:
    family = HistogramMetricFamily(
        "timingwheel_lateness_seconds", "Start of a task minus its due time", labels=["name"]
    )
    for stats in timers:
        lateness, total = stats.lateness, 0
        buckets = []
        for bound_ms, count in zip(lateness.bounds_ms, lateness.counts, strict=False):
            total += count
            buckets.append((str(bound_ms / 1000), total))
        buckets.append(("+Inf", total + lateness.counts[-1]))
        family.add_metric([stats.name], buckets, lateness.sum_ms / 1000)
    return family


_lock = threading.Lock()  # guards _registered
_registered: "weakref.WeakKeyDictionary[CollectorRegistry, dict[str, Purgatory]]" = (
    weakref.WeakKeyDictionary()
)


def register(purgatory: "Purgatory", registry: CollectorRegistry) -> None:
    """Show a purgatory and its timer in a registry. ValueError if its name is taken there."""
    with _lock:
        members = _registered.get(registry)
        if members is None:
            members = {}
            registry.register(PurgatoryCollector(lambda: list(members.values())))
            _registered[registry] = members
        if purgatory.name in members:
            raise ValueError(f"name is {purgatory.name!r}; expected one not yet in the registry")
        members[purgatory.name] = purgatory


def unregister(purgatory: "Purgatory", registry: CollectorRegistry) -> None:
    """Show it no longer; nothing happens if it is not there."""
    with _lock:
        members = _registered.get(registry, {})
        if members.get(purgatory.name) is purgatory:
            del members[purgatory.name]


class MetricsServer:
    """A running endpoint: ``addr``, ``port``, and `close` to end it. Also a context manager."""

    def __init__(self, port: int, addr: str, registry: CollectorRegistry) -> None:
        try:
            self._server, self._thread = start_http_server(port, addr, registry)
        except (OSError, OverflowError) as error:
            raise MetricsError(f"cannot serve metrics on {addr}:{port}: {error}") from error
        self.addr = addr
        self.port: int = self._server.server_port
        self._thread.name = f"purgatory-metrics-{self.port}"

    def close(self) -> None:
        """Stop serving, and wait until the thread has ended."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    port: int, addr: str = "127.0.0.1", registry: CollectorRegistry | None = None
) -> MetricsServer:
    """Serve the metrics over HTTP, in a thread of its own; port 0 takes a free one.

    ``registry``: what to show; None: all purgatories of this process that are alive, which must
    then have different names. Raises MetricsError when the address is in use or not ours.
    """
    if registry is None:
        from purgatory.purgatory import living  # noqa: PLC0415  # it imports this module

        registry = CollectorRegistry()
        registry.register(PurgatoryCollector(living))
    return MetricsServer(port, addr, registry)
