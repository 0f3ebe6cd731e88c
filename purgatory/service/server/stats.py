"""ServerStats: the statistics of a server, and how `/metrics` shows each of them."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

#: The kind of a number: of the moment, since the start, or operations by outcome.
GAUGE: Final = "gauge"
COUNTER: Final = "counter"
OUTCOME: Final = "outcome"
#: One of the purgatory's metrics.
OWN: Final = "own"
#: A number of the moment whose metric is named `purgatory_...`.
PURGATORY: Final = "purgatory"


def _is(kind: str, text: str) -> dict[str, Any]:
    return {"kind": kind, "text": text}


@dataclass(frozen=True, slots=True)
class ServerStats:
    """The statistics of a server at one moment; counters are since its start.

    Jobs are among `unacknowledged`. `HealthReport` explains the `..._age_seconds` and others.
    """

    pending: int = field(metadata=_is(OWN, "Operations that wait"))
    unacknowledged: int = field(
        metadata=_is(GAUGE, "Outcomes kept for their clients, and due jobs")
    )
    held: int = field(metadata=_is(GAUGE, "Events held for later operations"))
    connections: int = field(metadata=_is(GAUGE, "Connections that said hello"))
    messages: int = field(metadata=_is(COUNTER, "Messages read from clients"))
    submitted: int = field(metadata=_is(COUNTER, "Operations submitted"))
    completed: int = field(metadata=_is(OUTCOME, "Operations completed"))
    failed: int = field(metadata=_is(OUTCOME, "Operations failed"))
    expired: int = field(metadata=_is(OUTCOME, "Operations expired"))
    cancelled: int = field(metadata=_is(OUTCOME, "Operations cancelled"))
    refused: int = field(metadata=_is(COUNTER, "Refused requests and operations"))
    commits: int = field(metadata=_is(COUNTER, "Transactions"))
    commit_seconds: float = field(metadata=_is(COUNTER, "Seconds of transactions"))
    commit_failures: int = field(metadata=_is(COUNTER, "Transactions that were undone"))
    store_backlog: int = field(metadata=_is(GAUGE, "Requests that wait for the store thread"))
    store_bytes: int = field(metadata=_is(GAUGE, "Size of the database and its log"))
    uptime_seconds: float = field(metadata=_is(GAUGE, "Seconds since the start"))
    memory_bytes: int = field(metadata=_is(GAUGE, "Estimated memory of the process"))
    max_memory_bytes: int = field(metadata=_is(GAUGE, "Limit of the memory (max_memory); 0: none"))
    ready: int = field(metadata=_is(GAUGE, "1 if the server is ready, else 0"))
    last_commit_age_seconds: float = field(
        metadata=_is(GAUGE, "Seconds since a commit last succeeded")
    )
    oldest_due_age_seconds: float = field(
        metadata=_is(GAUGE, "Lateness of the oldest due outcome not on disk, in seconds")
    )
    failing_seconds: float = field(metadata=_is(GAUGE, "Seconds for which all commits have failed"))
    next_due_seconds: float = field(
        metadata=_is(GAUGE, "Seconds until something may be due; -1 if nothing waits")
    )
    jobs_waiting: int = field(metadata=_is(GAUGE, "Due jobs that wait for a worker or an attempt"))
    jobs_leased: int = field(metadata=_is(GAUGE, "Jobs leased to workers"))
    jobs_dead: int = field(metadata=_is(GAUGE, "Dead jobs"))
    repeats: int = field(metadata=_is(PURGATORY, "Repeats, including paused ones"))
    remembered_ids: int = field(
        metadata=_is(PURGATORY, "Callers' ids, remembered or to be remembered")
    )
    max_remembered_ids: int = field(
        metadata=_is(PURGATORY, "Limit of remembered ids (max_remembered)")
    )

    def as_dict(self) -> dict[str, int | float]:
        """Return name -> number."""
        return asdict(self)
