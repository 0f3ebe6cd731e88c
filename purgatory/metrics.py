"""Metrics: integers of purgatories and timers, read when Prometheus scrapes them. Any thread.

A registry gets a single collector; the label `name` tells the purgatories apart.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, Self
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from _purgatory_cpython.locks import freed_at_exit
from purgatory.errors import PurgatoryError
from purgatory.registry import ObservablePurgatory, PurgatoryStats, live_purgatories
from timingwheel import Lateness, TimerStats
from timingwheel.lowlevel import new_rlock, plain_int

__all__ = ["ANSWER_SECONDS", "MetricsError", "MetricsServer", "PurgatoryCollector", "serve"]

#: `MetricsServer.close` waits so long for a peer to read its response.
ANSWER_SECONDS = 5.0


class MetricsError(PurgatoryError):
    """Raised by `serve` if it cannot listen on the address."""


class PurgatoryCollector(Collector):
    """Shows the purgatories that `members` returns, and their timers, each once."""

    def __init__(self, members: Callable[[], Iterable[ObservablePurgatory]]) -> None:
        self._members = members

    def describe(self) -> Iterable[Metric]:
        """Return metrics without samples."""
        return _families([], [])

    def collect(self) -> Iterable[Metric]:
        """Return the present metrics. Any thread; holds no lock while it yields."""
        members = list(self._members())
        timers = {id(member.timer): member.timer for member in members}
        return _families(
            [member.stats() for member in members], [timer.stats() for timer in timers.values()]
        )


# Type, name, description, and the stats' fields, by the label `outcome` if several.
_Row = tuple[type[CounterMetricFamily | GaugeMetricFamily], str, str, str]
_GAUGE, _COUNTER = GaugeMetricFamily, CounterMetricFamily
_OF_PURGATORIES: tuple[_Row, ...] = (
    (_GAUGE, "purgatory_operations_pending", "Operations that wait", "pending"),
    (
        _GAUGE,
        "purgatory_watch_entries",
        "Pairs of a pending operation and a watched key",
        "watch_entries",
    ),
    (_GAUGE, "purgatory_watched_keys", "Keys that an operation waits for", "watched_keys"),
    (
        _GAUGE,
        "purgatory_held_events",
        "Events that count for operations submitted later, too",
        "held",
    ),
    (
        _COUNTER,
        "purgatory_operations",
        "Operations that ended: completed, failed, expired, cancelled",
        "completed failed expired cancelled",
    ),
    (_COUNTER, "mq_mailbox_commands", "Commands posted to the loop", "mailbox_commands"),
    (_GAUGE, "mq_mailbox_depth", "Commands that the loop has not taken out yet", "mailbox_depth"),
)
_OF_TIMERS: tuple[_Row, ...] = (
    (_GAUGE, "timingwheel_timers_pending", "Tasks that have not started", "pending"),
    (_COUNTER, "timingwheel_timers", "Tasks that ended", "fired cancelled"),
    (_COUNTER, "timingwheel_cascades", "Buckets placed again on a lower level", "cascades"),
    (
        _GAUGE,
        "timingwheel_executor_backlog",
        "Tasks that are due and have not started",
        "executor_backlog",
    ),
)


def _families(purgatories: "list[PurgatoryStats]", timers: "list[TimerStats]") -> Iterator[Metric]:
    for row in _OF_PURGATORIES:
        yield _metric(row, purgatories)
    for row in _OF_TIMERS:
        yield _metric(row, timers)
    yield _buckets(timers)
    yield _lateness(timers)


def _metric(row: _Row, members: "list[PurgatoryStats] | list[TimerStats]") -> Metric:
    family, name, text, fields = row
    has_outcomes = " " in fields
    samples = [
        ((stats.name, field) if has_outcomes else (stats.name,), getattr(stats, field))
        for stats in members
        for field in fields.split()
    ]
    return _summed(family(name, text, labels=["name", "outcome"][: 1 + has_outcomes]), samples)


def _summed(
    family: CounterMetricFamily | GaugeMetricFamily, samples: Iterable[tuple[tuple[str, ...], int]]
) -> Metric:
    # Prometheus rejects the same labels twice: numbers of the same name are added up.
    totals: dict[tuple[str, ...], int] = {}
    for labels, value in samples:
        totals[labels] = totals.get(labels, 0) + value
    for labels, value in totals.items():
        family.add_metric(labels, value)
    return family


def _buckets(timers: "list[TimerStats]") -> Metric:
    samples = [
        ((stats.name, str(level)), count)
        for stats in timers
        for level, count in enumerate(stats.buckets_occupied)
    ]
    family = GaugeMetricFamily(
        "timingwheel_buckets_occupied", "Buckets that hold tasks", labels=["name", "level"]
    )
    return _summed(family, samples)


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


class _Members(PurgatoryCollector):
    """The collector of a registry, with the registry's purgatories."""

    def __init__(self) -> None:
        self.by_name: dict[str, ObservablePurgatory] = {}
        super().__init__(self.by_name.values)


# Guards _registered. Re-entrant: a finalizer may close a purgatory while another is registered.
_lock = new_rlock()
# By the registry's id: a subclass with `__eq__` may have no hash. The registry alone keeps its
# members alive, so an entry goes before its id is given again.
_registered: "weakref.WeakValueDictionary[int, _Members]" = weakref.WeakValueDictionary()


def _reset_after_fork() -> None:
    global _lock  # noqa: PLW0603
    _lock = new_rlock()  # a forked child lacks the holder of the old lock
    for members in list(_registered.values()):
        members.by_name.clear()


os.register_at_fork(after_in_child=_reset_after_fork)


def check_registry(registry: object) -> None:
    """Raise TypeError unless given a registry."""
    if not isinstance(registry, CollectorRegistry):
        raise TypeError(f"registry is {registry!r}; expected a CollectorRegistry or None")


def register(purgatory: ObservablePurgatory, registry: CollectorRegistry) -> None:
    """Show a purgatory and its timer in a registry.

    Raises TypeError for an object that is no registry, ValueError if the name is taken.
    """
    check_registry(registry)
    with _lock:
        members = _registered.get(id(registry))
        if members is None or not _is_in(registry, members):
            members = _Members() if members is None else members
            registry.register(members)
            _registered[id(registry)] = members
        if purgatory.name in members.by_name:
            raise ValueError(f"name is {purgatory.name!r}; expected one not yet in the registry")
        members.by_name[purgatory.name] = purgatory


def _is_in(registry: CollectorRegistry, members: _Members) -> bool:
    return members in getattr(registry, "_collector_to_names", [members])


def unregister(purgatory: ObservablePurgatory, registry: CollectorRegistry) -> None:
    """Show a purgatory no longer; does nothing if absent."""
    with freed_at_exit(_lock):
        members = _registered.get(id(registry))
        if members is not None and members.by_name.get(purgatory.name) is purgatory:
            del members.by_name[purgatory.name]


class _InFlightResponses:
    """A WSGI application: counts the unsent responses of an inner application.

    The server's threads are daemons: an exit could cut a response short.
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
        except (OSError, OverflowError, ValueError) as error:
            raise MetricsError(f"cannot serve metrics on {addr}:{port}: {error}") from error
        self._pid = os.getpid()
        self._responses = _InFlightResponses(make_wsgi_app(registry))
        self._server.set_app(self._responses)
        self.addr = addr
        self.port: int = self._server.server_port
        self._thread.name = f"purgatory-metrics-{self.port}"

    def close(self) -> None:
        """Stop serving; requests under way are still answered, for up to `ANSWER_SECONDS`."""
        if sys.is_finalizing() or os.getpid() != self._pid:  # no thread serves here
            self._server.server_close()
            return
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._responses.wait(ANSWER_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has a socket and threads")


def serve(
    port: int, addr: str = "127.0.0.1", registry: CollectorRegistry | None = None
) -> MetricsServer:
    """Serve the metrics over HTTP, in a separate thread; port 0 takes a free one.

    `registry`: None: all live purgatories of the process, adding up figures of the same name.
    Raises MetricsError, and TypeError for bad arguments.
    """
    port = plain_int("port", port)
    if not isinstance(addr, str):
        raise TypeError(f"addr is {addr!r}; expected a str")
    if registry is None:
        registry = CollectorRegistry()
        registry.register(PurgatoryCollector(live_purgatories))
    check_registry(registry)
    return MetricsServer(port, addr, registry)
