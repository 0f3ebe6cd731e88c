"""DueJob: a due job at the server. Store thread alone."""

from typing import Final

from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import DEAD

#: `start_within_ms` of a job that may begin at any time.
ANY_TIME: Final = -1


class DueJob:
    """A due job: `record` is its outcome, `attempts` counts ended attempts.

    `state`: as in a `JobRecord`, but perhaps newer; SCHEDULED: moved to a later time. A worker may
    hold the job (`holder`, until `until_ms`): the job is ready until it `has_begun`. `begun_ms`: of
    the latest attempt. `max_attempts`: of the latest holder. `at_ms`: when a scheduled or retrying
    job is ready. A first attempt begins within `start_within_ms` of `due_ms`, or never.
    """

    __slots__ = (
        "at_ms",
        "attempts",
        "begun_ms",
        "cancel_reason",
        "due_ms",
        "has_begun",
        "holder",
        "is_cancelled",
        "is_recalled",
        "is_waiting",
        "kind",
        "losses",
        "max_attempts",
        "oldest_ms",
        "priority",
        "ready_ms",
        "record",
        "start_within_ms",
        "state",
        "token",
        "until_ms",
    )

    def __init__(
        self,
        record: OutcomeRecord,
        kind: str,
        attempts: int = 0,
        *,
        due_ms: int = 0,
        priority: int = 0,
        start_within_ms: int = ANY_TIME,
    ) -> None:
        self.record: OutcomeRecord = record
        self.kind: str = kind
        self.attempts: int = attempts
        self.due_ms: int = due_ms or record.ended_ms
        self.priority: int = priority
        self.start_within_ms: int = start_within_ms
        self.state: int = -1  # none yet
        self.at_ms: int = 0
        self.ready_ms: int = 0  # since when
        self.oldest_ms: int = 0  # the same, of the longest ready behind it in the queue, too
        self.is_waiting: bool = False  # in the queue of its group
        self.max_attempts: int = 1
        self.holder: WorkerConnection | None = None
        self.token: int = 0  # of the lease
        self.until_ms: int = 0
        self.has_begun: bool = False
        self.begun_ms: int = 0
        self.is_cancelled: bool = False  # its attempt is the last
        self.cancel_reason: str = ""
        self.losses: int = 0  # of connections, when its handler was the next to begin
        self.is_recalled: bool = False  # the worker was asked for the job

    @property
    def is_dead(self) -> bool:
        """Whether its last attempt has failed."""
        return self.state == DEAD

    @property
    def begun_attempts(self) -> int:
        """How many attempts have begun."""
        return self.attempts + self.has_begun

    @property
    def start_by_ms(self) -> int:
        """When the first attempt has to begin; 0: any time."""
        if self.start_within_ms == ANY_TIME or self.attempts:
            return 0
        return self.due_ms + self.start_within_ms

    def is_late(self, now_ms: int) -> bool:
        """Whether the first attempt had to begin before `now_ms`."""
        return 0 < self.start_by_ms < now_ms


def due_job_of(record: OutcomeRecord, attempts: int = 0, moved_ms: int = 0) -> DueJob:
    """Make a due job of an outcome; `moved_ms`: its due time, if moved."""
    job = record.job
    assert job is not None
    within_ms = None if job.options is None else job.options.start_within_ms
    return DueJob(
        record,
        job.kind,
        attempts,
        due_ms=moved_ms or job.due_ms,
        priority=job.priority,
        start_within_ms=ANY_TIME if within_ms is None else within_ms,
    )
