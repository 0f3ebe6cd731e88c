"""The rows of a report, one class a table: plain immutable tuples, in memory once Spark is done.

`report` makes them; `charts`, `page` and `terminal` show them. Any thread may use them.
"""

from __future__ import annotations

from typing import NamedTuple

from purgatory.spark.report import formatting


class Kind(NamedTuple):
    """Whom a row is about: all kinds, one, or (neither total nor a name) the small ones."""

    total: bool
    name: str | None

    def __str__(self) -> str:
        if self.total:
            return "all kinds"
        if self.name is None:
            return "other kinds"
        return formatting.name(self.name) or "(no kind)"


class KindSummary(NamedTuple):
    """How operations ended, and how long it took; quantiles are at `aggregates.QUANTILES`.

    `submitted`: rows of the operations table, None without one.
    """

    kind: Kind
    submitted: int | None
    operations: int
    completed: int
    expired: int
    cancelled: int
    mean_waited_ms: float
    waited_ms: tuple[int, ...]
    completed_waited_ms: tuple[int, ...]
    lateness_ms: tuple[int, ...]


class Bin(NamedTuple):
    """How many ended in one stretch of time."""

    kind: Kind
    start_ms: int
    completed: int
    expired: int
    cancelled: int


class HotKey(NamedTuple):
    """A key and how many operations have it (None: unknown), and how many it completed."""

    kind: Kind
    key: str
    watched: int | None
    completed: int


class CurvePoint(NamedTuple):
    """What a timeout achieves: share completed, and the average wait; see `timeout_suggestions`.

    `watched`: how many operations waited so long, which is what the estimate rests on here.
    """

    kind: Kind
    timeout_ms: int
    share: float
    mean_wait_ms: float
    watched: int


class Suggestion(NamedTuple):
    """The shortest timeout for a wanted share; None where nothing tells of one that reaches it."""

    kind: Kind
    wanted: float
    point: CurvePoint | None


class WheelRow(NamedTuple):
    """A wheel of other dimensions; see `wheel_tuning.compare_wheels`."""

    tick_ms: int
    wheel_size: int
    levels: int
    buckets: float
    cascades: int
    cascades_per_operation: float
    moves_per_operation: float
    wakeups: int
    wakeups_per_second: float
    lateness_ms: float
    max_lateness_ms: int
