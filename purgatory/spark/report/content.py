"""The content of a report: a class for each table. Immutable; any thread may use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from purgatory.spark.report.jobs.job_content import JobsReport
from purgatory.spark.report.kind import Kind


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
    number of operations that waited so long, the base of the estimate.
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
    `completed_waited_ms`: empty without a completion.
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
    """A kind in both periods; None where it did not occur.

    `waits_ms`, `earlier_waits_ms`: within which half of the operations complete, and 99 percent.
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
    """One thing to do, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, its rows in the order of display.

    `kinds`: number of kinds; see `report.MAX_KINDS`. `first_ms`, `last_ms`: first submission and
    last outcome. `exact`: of quantiles and curves. `bin_ms`: width of a `Bin`; empty bins are left
    out. `findings`: the weightiest first. `changes`: against an earlier period. `jobs`: None if the
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
