"""ClusterStatus: a snapshot of a server in a cluster. Immutable."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from purgatory.service.errors import STANDBY_OF
from purgatory.service.troubles import cluster_troubles

#: The answer of a standby without an active server.
NO_ACTIVE: Final = "standby: no server is active"


def standby_message(active: str) -> str:
    """Return what a standby answers; `active`: the active server's address, empty if unknown."""
    return f"{STANDBY_OF}{active}" if active else NO_ACTIVE


class Role(StrEnum):
    """What a server does."""

    #: The server waits for its turn.
    STANDBY = "standby"
    #: The server has taken over, and reads the store.
    LOADING = "loading"
    ACTIVE = "active"
    #: The server answers the requests in flight, and takes no others.
    CLOSING = "closing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The state of a single server.

    `address`: of this server, as clients reach it. `active`: of the active server, empty if
    unknown. `epoch`: the last one seen. `replicated`: whether commits wait for a synchronous
    standby of the database; None: not known yet. `standbys`: their addresses. `takeovers`: how
    often this process has taken over. `beat_age_s`: seconds since the last beat of the active
    server. `overdue_s`: for how many seconds the lease of an active server has not been valid.
    `drift_ms`: service time minus the database's clock.
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
        """Return the fields for the page, and `troubles`: what the server lacks, in sentences."""
        figures = {"standbys": len(self.standbys), "replicated": bool(self.replicated)}
        return asdict(self) | {"troubles": cluster_troubles(figures)}

    @property
    def trouble(self) -> str:
        """Why the server takes no requests; empty if it does."""
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
