"""The content of a report: named tuples that fit into memory, a class for each table.

`report` computes it; page, terminal and files show it. Immutable; any thread may use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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
        """The number of operations, whatever their outcome."""
        return self.completed + self.failed + self.expired + self.cancelled


class CurvePoint(NamedTuple):
    """The effect of a timeout: share completed and average wait; see `curves`.

    `mean_wait_ms`: the restricted mean, the average time until an operation completes or its
    timeout ends it. `watched`: number of operations that waited so long, on which the estimate is
    based.
    """

    kind: Kind
    timeout_ms: int
    share: float
    mean_wait_ms: float
    watched: int


class KindSummary(NamedTuple):
    """The outcomes and waits of a kind; quantiles are at `histograms.QUANTILES`.

    `submitted`: number of rows in the table of operations, None without one. `timeouts_ms`: the
    shortest, the median and the longest timeout. `now`: the effect of these timeouts by the
    estimate of `curves`, with the median as `timeout_ms`. `completed_waited_ms`: waits of completed
    operations, empty without any.
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

    `waits_ms`, `earlier_waits_ms`: within which half of the operations complete, and 99 percent;
    None if they do not.
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
    """The operations submitted in one hour of the week (UTC): how many, and how many expired.

    `weekday`: 0 is Monday.
    """

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
    """The shortest timeout for a wanted share; None if none is known."""

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
    """What to do with the timeouts of a kind.

    `proposed`: None unless the action is to shorten or to lengthen.
    """

    summary: KindSummary
    action: Action
    proposed: CurvePoint | None


class Advice(NamedTuple):
    """One thing to do, in a few words, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, its rows in the order of display.

    `exact`: whether quantiles and curves are exact. `first_ms`, `last_ms`: time of the first
    submission and of the last outcome. `kinds`: number of kinds; see `report.MAX_KINDS`.
    `bin_ms`: width of a `Bin`; bins in which nothing ended are left out. `findings`: what to do,
    the weightiest first. `changes`: against the report of an earlier period. `jobs`: None if the
    journal has none. `is_server`: the journal is that of a server; its wheel is no setting.
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
