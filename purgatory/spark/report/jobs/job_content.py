"""The content of a report about jobs.

A dead job tried again ends once more. Times are those of the last attempt. Immutable; any thread
may use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from purgatory.spark.report.kind import Kind


class EndCount(NamedTuple):
    """The number of jobs with one value of a measure, by state of the end."""

    value: int
    done: int
    dead: int
    cancelled: int

    @property
    def ended(self) -> int:
        """The number of ends."""
        return self.done + self.dead + self.cancelled


EndCounts = Sequence[EndCount]
"""The counts of one kind and measure, by ascending value."""


class JobSummary(NamedTuple):
    """The ends of a kind; quantiles are at `histograms.QUANTILES`, or empty.

    `begun`: ends after an attempt had begun. `attempts`: of all jobs. `queue_ms`: from due to
    begun. `run_ms`: duration of successful attempts. `peak`: how many last attempts ran at once, or
    None.
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
    """How many jobs of a kind ended with an error; "#" stands for digits."""

    kind: Kind
    error: str
    dead: int
    cancelled: int


class WorkerJobs(NamedTuple):
    """The jobs of a kind that a worker's connection ended."""

    kind: Kind
    worker: str
    done: int
    dead: int
    run_ms: int


class JobHour(NamedTuple):
    """The jobs due in an hour of the week (UTC). `weekday`: 0 is Monday.

    `late`: how many began more than `job_report.LATE_MS` later.
    """

    weekday: int
    hour: int
    ended: int
    dead: int
    late: int


class LimitEffect(NamedTuple):
    """The effect of a limit of running jobs: see `concurrency.effect_of_limit`."""

    kind: Kind
    running: int
    held: float
    p99_ms: int
    most_ms: int


class TimeLimitEffect(NamedTuple):
    """The effect of a time limit on the last attempts.

    `cut`: how many jobs they would not have done. `saved_ms`: the time of failed attempts beyond
    the limit.
    """

    kind: Kind
    limit_ms: int
    cut: int
    saved_ms: int


@dataclass(frozen=True, slots=True)
class JobsReport:
    """The jobs of a journal; rows in the order of display, all kinds together first.

    `kinds`: how many kinds. `exact`: of quantiles. By kind: `minutes`, jobs by minute of the hour
    when due; `runs`, by duration of the last attempt; `attempts`, by number of attempts.
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
