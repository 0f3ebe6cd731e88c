"""ClusterStatus: a snapshot of a server in a cluster, and its metrics. Any thread."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from purgatory.service.errors import STANDBY_OF
from purgatory.service.troubles import cluster_troubles

NO_ACTIVE: Final = "standby: no server is active"


def standby_message(active: str) -> str:
    """Return a standby's answer; `active`: the active server's address, or empty."""
    return f"{STANDBY_OF}{active}" if active else NO_ACTIVE


class Role(StrEnum):
    """The role of a server."""

    STANDBY = "standby"
    #: Reads the store after a takeover.
    LOADING = "loading"
    ACTIVE = "active"
    #: Answers requests in flight, and takes no others.
    CLOSING = "closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The state of a single server.

    `address`: as clients reach it. `active`: of the active server, or empty. `epoch`: the last
    seen. `replicated`: whether commits wait for a synchronous standby of the database; None: not
    known yet. `standbys`: addresses. `takeovers`: of this process. `beat_age_s`: since the last
    beat of the active server. `overdue_s`: since the end of the active server's lease. `drift_ms`:
    service time minus the database's clock.
    """

    role: Role
    address: str
    active: str = ""
    partition: str = ""
    epoch: int = 0
    replicated: bool | None = None
    standbys: list[str] = field(default_factory=list)
    takeovers: int = 0
    beat_age_s: float = 0.0
    overdue_s: float = 0.0
    drift_ms: int = 0

    def shown(self) -> dict[str, Any]:
        """Return the fields for the page, and `troubles`, in sentences."""
        figures = {"standbys": len(self.standbys), "replicated": bool(self.replicated)}
        return asdict(self) | {"troubles": cluster_troubles(figures)}

    @property
    def trouble(self) -> str:
        """Why the server answers no requests, or empty."""
        if self.role is Role.STANDBY:
            return standby_message(self.active)
        if self.role is not Role.ACTIVE:
            return str(self.role)
        if self.overdue_s > 0:
            return (
                f"the lease ended {self.overdue_s:.0f} s ago: the database does not confirm it, "
                "and nothing is answered"
            )
        return ""


class ClusterCollector(Collector):
    """Shows the `status` as `purgatory_cluster_...`."""

    def __init__(self, status: Callable[[], ClusterStatus]) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """See `Collector`."""
        return _metrics(ClusterStatus(role=Role.STANDBY, address=""))

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics."""
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
    """A registry that also shows the metrics of `joined`, the active server's."""

    def __init__(self) -> None:
        super().__init__()
        self.joined: CollectorRegistry | None = None

    def collect(self) -> Iterable[Metric]:
        """See `CollectorRegistry`."""
        yield from super().collect()
        if (joined := self.joined) is not None:
            yield from joined.collect()
