"""The rows of a report: a class of plain immutable tuples for each of its tables.

`report` makes them; `charts`, `page` and `terminal` show them. Any thread may use them.
"""

from __future__ import annotations

from typing import NamedTuple

from purgatory.spark.report import formatting


class Kind(NamedTuple):
    """What a row is about: all kinds, one kind, or (neither total nor a name) the small kinds."""

    total: bool
    name: str | None

    def __str__(self) -> str:
        if self.total:
            return "all kinds"
        if self.name is None:
            return "other kinds"
        return formatting.name(self.name) or "(no kind)"


class KindSummary(NamedTuple):
    """The outcomes and waits of a kind; quantiles are at `aggregates.QUANTILES`.

    `submitted`: number of rows in the table of operations, None without one.
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
    """The number of operations that ended in one bin of time."""

    kind: Kind
    start_ms: int
    completed: int
    expired: int
    cancelled: int


class HotKey(NamedTuple):
    """A key, how many operations watch it (None: unknown), and how many it completed."""

    kind: Kind
    key: str
    watched: int | None
    completed: int


class CurvePoint(NamedTuple):
    """What a timeout achieves: the share completed and the average wait; see `timeout_suggestions`.

    `watched`: number of operations that waited so long, on which the estimate is based.
    """

    kind: Kind
    timeout_ms: int
    share: float
    mean_wait_ms: float
    watched: int


class Suggestion(NamedTuple):
    """The shortest timeout for a wanted share; None if the journal has none that reaches it."""

    kind: Kind
    wanted: float
    point: CurvePoint | None


class WheelRow(NamedTuple):
    """A timing wheel of other dimensions; see `wheel_tuning.compare_wheels`."""

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
