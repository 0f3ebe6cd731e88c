"""The rows of a report: named tuples, one class for each table.

`report` makes them; `charts`, `page` and `terminal` show them. Any thread may use them.
"""

from __future__ import annotations

from typing import NamedTuple

from purgatory.spark.report import formatting


class Kind(NamedTuple):
    """What a row is about: all kinds (`total`), one, or the small ones."""

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
    """A key with the numbers of its watchers (None: unknown) and completions."""

    kind: Kind
    key: str
    watched: int | None
    completed: int


class CurvePoint(NamedTuple):
    """What a timeout achieves: share completed and average wait.

    See `timeout_suggestions`. `watched`: number of operations that waited so long, on which the
    estimate is based.
    """

    kind: Kind
    timeout_ms: int
    share: float
    mean_wait_ms: float
    watched: int


class Suggestion(NamedTuple):
    """The shortest timeout for a wanted share; None if none is known."""

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
