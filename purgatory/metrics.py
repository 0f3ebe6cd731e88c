"""Metrics: integers of purgatories and timers, read when Prometheus scrapes them.

No hot path knows of Prometheus. A registry gets one collector, which shows all purgatories that
were registered there, distinguished by the label `name`.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from purgatory.errors import PurgatoryError
from purgatory.registry import ObservablePurgatory, live_purgatories

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from purgatory.registry import PurgatoryStats
    from timingwheel import Lateness, TimerStats


#: How long `MetricsServer.close` waits for a peer to read its response.
ANSWER_SECONDS = 5.0


class MetricsError(PurgatoryError):
    """Raised by `serve` if it cannot listen on the address; names it and says why."""


class PurgatoryCollector(Collector):
    """Shows the purgatories that `members` returns at each scrape, and their timers, each once."""

    def __init__(self, members: Callable[[], Iterable[ObservablePurgatory]]) -> None:
        self._members = members

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without samples, so that a registry can find clashes of names."""
        return _families([], [])

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of this moment. Any thread; holds no lock while it yields."""
        members = list(self._members())
        timers = {id(member.timer): member.timer for member in members}
        return _families(
            [member.stats() for member in members], [timer.stats() for timer in timers.values()]
        )


def _families(purgatories: "list[PurgatoryStats]", timers: "list[TimerStats]") -> Iterator[Metric]:
    yield _gauge(
        "purgatory_operations_pending",
        "Operations that wait",
        [((stats.name,), stats.pending) for stats in purgatories],
    )
    yield _gauge(
        "purgatory_watch_entries",
        "Pairs of a pending operation and a watched key",
        [((stats.name,), stats.watch_entries) for stats in purgatories],
    )
    yield _gauge(
        "purgatory_watched_keys",
        "Keys that an operation waits for",
        [((stats.name,), stats.watched_keys) for stats in purgatories],
    )
    yield _gauge(
        "purgatory_held_events",
        "Events that count for operations submitted later, too",
        [((stats.name,), stats.held) for stats in purgatories],
    )
    yield _outcomes(
        "purgatory_operations",
        "Operations that ended",
        purgatories,
        ("completed", "failed", "expired", "cancelled"),
    )
    yield _counter(
        "mq_mailbox_commands",
        "Commands posted to the loop",
        [((stats.name,), stats.mailbox_commands) for stats in purgatories],
    )
    yield _gauge(
        "mq_mailbox_depth",
        "Commands that the loop has not taken out yet",
        [((stats.name,), stats.mailbox_depth) for stats in purgatories],
    )
    yield _gauge(
        "timingwheel_timers_pending",
        "Tasks that wait in the wheel",
        [((stats.name,), stats.pending) for stats in timers],
    )
    yield _outcomes("timingwheel_timers", "Tasks that ended", timers, ("fired", "cancelled"))
    yield _buckets(timers)
    yield _counter(
        "timingwheel_cascades",
        "Buckets placed again on a lower level",
        [((stats.name,), stats.cascades) for stats in timers],
    )
    yield _lateness(timers)
    yield _gauge(
        "timingwheel_executor_backlog",
        "Tasks that are due and have not started",
        [((stats.name,), stats.executor_backlog) for stats in timers],
    )


# Pairs of label values (name, and outcome or level) and a value.
_Samples = Sequence[tuple[tuple[str, ...], int]]


def _summed(samples: _Samples) -> Iterable[tuple[tuple[str, ...], int]]:
    # Prometheus rejects a page with the same labels twice: figures of the same name are added up.
    totals: dict[tuple[str, ...], int] = {}
    for labels, value in samples:
        totals[labels] = totals.get(labels, 0) + value
    return totals.items()


def _gauge(name: str, text: str, samples: _Samples, *labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["name", *labels])
    for values, value in _summed(samples):
        family.add_metric(values, value)
    return family


def _counter(name: str, text: str, samples: _Samples, *labels: str) -> Metric:
    family = CounterMetricFamily(name, text, labels=["name", *labels])
    for values, value in _summed(samples):
        family.add_metric(values, value)
    return family


def _outcomes(
    name: str,
    text: str,
    members: "list[PurgatoryStats] | list[TimerStats]",
    outcomes: tuple[str, ...],
) -> Metric:
    samples = [
        ((stats.name, outcome), getattr(stats, outcome))
        for stats in members
        for outcome in outcomes
    ]
    return _counter(name, text, samples, "outcome")


def _buckets(timers: "list[TimerStats]") -> Metric:
    samples = [
        ((stats.name, str(level)), count)
        for stats in timers
        for level, count in enumerate(stats.buckets_occupied)
    ]
    return _gauge("timingwheel_buckets_occupied", "Buckets that hold tasks", samples, "level")


def _lateness(timers: "list[TimerStats]") -> Metric:
    family = HistogramMetricFamily(
        "timingwheel_lateness_seconds", "Start of a task minus its due time", labels=["name"]
    )
    of_name: dict[str, list[Lateness]] = {}
    for stats in timers:
        of_name.setdefault(stats.name, []).append(stats.lateness)
    for name, parts in of_name.items():
        counts = [sum(column) for column in zip(*(part.counts for part in parts), strict=True)]
        bounds = [str(bound_ms / 1000) for bound_ms in parts[0].bounds_ms]
        buckets = list(zip([*bounds, "+Inf"], accumulate(counts), strict=True))
        family.add_metric([name], buckets, sum(part.sum_ms for part in parts) / 1000)
    return family


_lock = threading.Lock()  # guards _registered
_registered: "weakref.WeakKeyDictionary[CollectorRegistry, dict[str, ObservablePurgatory]]" = (
    weakref.WeakKeyDictionary()
)


def _reset_after_fork() -> None:
    """Forget the parent's purgatories in a forked child: their names are free there."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()  # the thread that held the other is not in this process
    for members in _registered.values():
        members.clear()


os.register_at_fork(after_in_child=_reset_after_fork)


def check_registry(registry: object) -> None:
    """Raise TypeError for what is no registry."""
    if not isinstance(registry, CollectorRegistry):
        raise TypeError(f"registry is {registry!r}; expected a CollectorRegistry or None")


def register(purgatory: ObservablePurgatory, registry: CollectorRegistry) -> None:
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


def unregister(purgatory: ObservablePurgatory, registry: CollectorRegistry) -> None:
    """Show a purgatory no longer; nothing happens if it is not there."""
    with _lock:
        members = _registered.get(registry, {})
        if members.get(purgatory.name) is purgatory:
            del members[purgatory.name]


class _InFlightResponses:
    """A WSGI application that counts the responses of another one that are not sent yet.

    The server's threads are daemons: without this, the end of the process could cut one short.
    """

    def __init__(self, application: "WSGIApplication") -> None:
        self._application = application
        self._changed = threading.Condition()
        self._under_way = 0  # guarded by _changed

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterator[bytes]:
        with self._changed:
            self._under_way += 1
        try:  # the server closes the generator after the last byte, or when the peer is gone
            yield from self._application(environ, start_response)
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait until all are sent, up to `seconds`: a peer may have stopped reading."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, seconds)


class MetricsServer:
    """A running endpoint: `addr`, `port`, and `close` to end it. Also a context manager."""

    def __init__(self, port: int, addr: str, registry: CollectorRegistry) -> None:
        try:
            self._server, self._thread = start_http_server(port, addr, registry)
        except (OSError, OverflowError) as error:
            raise MetricsError(f"cannot serve metrics on {addr}:{port}: {error}") from error
        self._responses = _InFlightResponses(make_wsgi_app(registry))
        self._server.set_app(self._responses)
        self.addr = addr
        self.port: int = self._server.server_port
        self._thread.name = f"purgatory-metrics-{self.port}"

    def close(self) -> None:
        """Stop serving; requests under way are still answered, for up to `ANSWER_SECONDS`."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._responses.wait(ANSWER_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    port: int, addr: str = "127.0.0.1", registry: CollectorRegistry | None = None
) -> MetricsServer:
    """Serve the metrics over HTTP, in a thread of its own; port 0 takes a free one.

    `registry`: what to show; None: all live purgatories of this process, with the figures of those
    of the same name added up. Raises MetricsError if it cannot listen on the address.
    """
    if registry is None:
        registry = CollectorRegistry()
        registry.register(PurgatoryCollector(live_purgatories))
    return MetricsServer(port, addr, registry)
