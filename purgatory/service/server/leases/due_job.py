"""DueJob: a job that is due, until it is done. Used by the store thread alone."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purgatory.service.server.leases.worker_connection import WorkerConnection
    from purgatory.service.server.records.clients import OutcomeRecord


class DueJob:
    """A job that is due: `record` is its outcome, `attempts` counts those that have ended.

    `max_attempts` is what the worker asked for that it was leased to last. It waits, or is leased
    (`holder`, until `until_ms` at the latest), or is given up (`is_dead`).
    """

    __slots__ = (
        "attempts",
        "holder",
        "is_dead",
        "kind",
        "max_attempts",
        "record",
        "token",
        "until_ms",
    )

    def __init__(self, record: "OutcomeRecord", kind: str, attempts: int = 0) -> None:
        self.record = record
        self.kind = kind
        self.attempts = attempts
        self.max_attempts = 1
        self.is_dead = False
        self.holder: WorkerConnection | None = None
        self.token = 0  # of the lease
        self.until_ms = 0  # when the lease ends
