"""The content of a report: a class for each table. Immutable; any thread may use it.

Of jobs: a dead job tried again ends once more. Times are those of the last attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from purgatory.spark.report import formatting


class Kind(NamedTuple):
    """What a row is about: all kinds (`total`), a kind, or the small kinds."""

    total: bool
    name: str | None

    def __str__(self) -> str:
        if self.total:
            return "all kinds"
        if self.name is None:
            return "other kinds"
        return formatting.name(self.name) or "(no kind)"


class ValueCount(NamedTuple):
    """The number of operations with one value of a measure, by outcome."""

    value: int
    completed: int
    failed: int
    expired: int
    cancelled: int

    @property
    def ended(self) -> int:
        """The number of operations."""
        return self.completed + self.failed + self.expired + self.cancelled


class CurvePoint(NamedTuple):
    """The effect of a timeout: share completed and average wait; see `curves`.

    `mean_wait_ms`: restricted mean until an operation completes or the timeout ends it. `watched`:
    operations that waited so long, the base of the estimate.
    """

    kind: Kind
    timeout_ms: int
    share: float
    mean_wait_ms: float
    watched: int


class KindSummary(NamedTuple):
    """The outcomes and waits of a kind; quantiles are at `histograms.QUANTILES`.

    `submitted`: None without a table of operations. `timeouts_ms`: the shortest, the median and the
    longest. `now`: the estimated effect of these timeouts, with the median as `timeout_ms`.
    `completed_waited_ms`: empty without a completion. `lateness_ms`: of the expired, empty without
    one; other outcomes have no due time to be late for.
    """

    kind: Kind
    submitted: int | None
    operations: int
    completed: int
    failed: int
    expired: int
    cancelled: int
    timeouts_ms: tuple[int, int, int]
    now: CurvePoint
    completed_waited_ms: tuple[int, ...]
    lateness_ms: tuple[int, ...]
    distinct_timeouts: int = 1


class Change(NamedTuple):
    """A kind in both periods; None where it did not occur, or is one of the small kinds.

    `waits_ms`, `earlier_waits_ms`: within which 50 and 99 percent complete.
    """

    kind: Kind
    now: KindSummary | None
    earlier: KindSummary | None
    waits_ms: tuple[int | None, int | None]
    earlier_waits_ms: tuple[int | None, int | None]


class Bin(NamedTuple):
    """The number of operations that ended in a bin of time."""

    kind: Kind
    start_ms: int
    completed: int
    failed: int
    expired: int
    cancelled: int


class WeekHour(NamedTuple):
    """The operations submitted in one hour of the week (UTC). `weekday`: 0 is Monday."""

    weekday: int
    hour: int
    operations: int
    expired: int


class HotKey(NamedTuple):
    """A key with the numbers of its watchers (None: unknown) and completions."""

    kind: Kind
    key: str
    watched: int | None
    completed: int


class Suggestion(NamedTuple):
    """The shortest timeout for a wanted share, or None."""

    kind: Kind
    wanted: float
    point: CurvePoint | None


class WheelRow(NamedTuple):
    """A timing wheel of other dimensions; see `wheel_tuning.compare_wheels`."""

    tick_ms: float
    wheel_size: int
    levels: int
    buckets: float
    cascades: int
    cascades_per_operation: float
    moves_per_operation: float
    wakeups: int
    wakeups_per_second: float
    lateness_ms: float
    max_lateness_ms: float


class Action(Enum):
    """What to do with the timeout of a kind."""

    SHORTEN = "shorten"
    LENGTHEN = "lengthen"
    TRY_LONGER = "try longer"
    CHECK_KEYS = "check keys"


class Finding(NamedTuple):
    """What to do with the timeouts of a kind; `proposed` to shorten or to lengthen only."""

    summary: KindSummary
    action: Action
    proposed: CurvePoint | None


class Advice(NamedTuple):
    """One thing to do, and why; `command`: to be copied as it is, in printable characters."""

    what: str
    why: str
    command: str = ""


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

    `late`: how many began more than `job_advice.LATE_MS` later.
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

    `exact`: of quantiles. By kind: `minutes`, jobs by minute of the hour when due; `runs`, by
    duration of the last attempt; `attempts`, by number of attempts.
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


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, its rows in the order of display.

    `kinds`: see `report.MAX_KINDS`. `first_ms`, `last_ms`: first submission and last outcome.
    `exact`: of quantiles and curves. `bin_ms`: width of a `Bin`; empty bins are left out.
    `findings`: the weightiest first. `changes`: against an earlier period. `jobs`: None if the
    journal has none. `is_server`: the journal is a server's, whose wheel is no setting.
    """

    operations: int
    kinds: int
    first_ms: int
    last_ms: int
    exact: bool
    bin_ms: int
    summaries: tuple[KindSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    bins: tuple[Bin, ...] = ()
    week: tuple[WeekHour, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    curves: Mapping[Kind, Sequence[CurvePoint]] = field(default_factory=dict)
    wheels: tuple[WheelRow, ...] = ()
    changes: tuple[Change, ...] = ()
    jobs: JobsReport | None = None
    is_server: bool = False
