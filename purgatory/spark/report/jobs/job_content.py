"""The content of a report about jobs: named tuples that fit into memory.

A row of the journal is the end of a job: a dead job tried again ends once more. Times are
those of the last attempt. Immutable; any thread may use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from purgatory.spark.report.kind import Kind


class EndCount(NamedTuple):
    """How many jobs with one value of a measure ended in which state."""

    value: int
    done: int
    dead: int
    cancelled: int

    @property
    def ended(self) -> int:
        """The number of ends, whatever their state."""
        return self.done + self.dead + self.cancelled


EndCounts = Sequence[EndCount]
"""The counts of one kind and measure, by ascending value."""


class JobSummary(NamedTuple):
    """The ends of a kind; quantiles are at `histograms.QUANTILES`, empty if none exist.

    `begun`: ends of which an attempt had begun. `attempts`, `most_attempts`: of all jobs together,
    and of the job with most. `queue_ms`: from due to begun. `run_ms`: how long the attempts took
    that did the job. `peak`: how many last attempts ran at the same time, at most; None: unknown.
    """

    kind: Kind
    done: int
    dead: int
    cancelled: int
    begun: int
    attempts: int
    most_attempts: int
    queue_ms: tuple[int, ...]
    run_ms: tuple[int, ...]
    peak: int | None = None

    @property
    def ended(self) -> int:
        """The number of ends."""
        return self.done + self.dead + self.cancelled


class JobError(NamedTuple):
    """How many jobs of a kind ended with an error. Each row of digits in it is shown as "#"."""

    kind: Kind
    error: str
    dead: int
    cancelled: int


class WorkerJobs(NamedTuple):
    """The jobs of a kind that a connection of a worker ended; see `JobRow.worker`."""

    kind: Kind
    worker: str
    done: int
    dead: int
    run_ms: int


class JobHour(NamedTuple):
    """The jobs that were due in an hour of the week (UTC). `weekday`: 0 is Monday.

    `late`: how many of them began more than `job_report.LATE_MS` after they were due.
    """

    weekday: int
    hour: int
    ended: int
    dead: int
    late: int


class LimitEffect(NamedTuple):
    """What a limit of running jobs would have done: see `concurrency.effect_of_limit`."""

    kind: Kind
    running: int
    held: float
    p99_ms: int
    most_ms: int


class TimeLimitEffect(NamedTuple):
    """What a time limit would have done to the last attempts.

    `cut`: how many jobs would not have been done by them. `saved_ms`: by how much sooner failed
    attempts would have ended, all together.
    """

    kind: Kind
    limit_ms: int
    cut: int
    saved_ms: int


@dataclass(frozen=True, slots=True)
class JobsReport:
    """The jobs of a journal; rows in the order of display, all kinds together first.

    `kinds`: how many kinds. `exact`: whether quantiles are exact. `minutes`, `runs`, `attempts`: by
    kind, jobs by minute of the hour when due, by duration of the last attempt, by number of
    attempts.
    """

    ended: int
    kinds: int
    first_ms: int
    last_ms: int
    exact: bool
    summaries: tuple[JobSummary, ...] = ()
    errors: tuple[JobError, ...] = ()
    workers: tuple[WorkerJobs, ...] = ()
    hours: tuple[JobHour, ...] = ()
    limits: tuple[LimitEffect, ...] = ()
    time_limits: tuple[TimeLimitEffect, ...] = ()
    minutes: Mapping[Kind, EndCounts] = field(default_factory=dict)
    runs: Mapping[Kind, EndCounts] = field(default_factory=dict)
    attempts: Mapping[Kind, EndCounts] = field(default_factory=dict)
