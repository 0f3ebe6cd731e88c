"""Findings: which kinds' timeouts to change, and what that gains.

Made from a kind's completion curve and its present timeouts. Pure functions; any thread may call.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from purgatory.spark.report.curves import Curve, shortest_timeout

if TYPE_CHECKING:
    from purgatory.spark.report.histograms import Histogram
    from purgatory.spark.report.rows import CurvePoint, KindSummary

# A shorter timeout may lose one completion in so many.
LOST_COMPLETIONS: Final = 1000
# A timeout is worth changing if it becomes shorter by a fifth, or if a percent more completes.
_SHORTER: Final = 0.8
_MORE: Final = 0.01
# An estimate rests on at least so many operations that waited so long, and a finding on so many
# that completed.
MIN_OPERATIONS: Final = 100
# A kind with more timeouts than this sets them operation by operation.
_MAX_TIMEOUTS: Final = 10
# Completions are still coming if a percent of the operations completes in the last tenth of the
# timeout.
_LAST_PART: Final = 0.9


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

    @property
    def weight(self) -> float:
        """The number of operations that it concerns, times the part of wait or share it changes."""
        now = self.summary.now
        if self.proposed is None:
            return self.summary.expired * _MORE
        waiting = abs(now.mean_wait_ms - self.proposed.mean_wait_ms) / max(1, now.mean_wait_ms)
        return self.summary.operations * (waiting + abs(self.proposed.share - now.share))


def has_own_timeouts(summary: KindSummary) -> bool:
    """Say whether the operations of a kind have timeouts of their own, as from a schedule.

    Those with short ones then need not be like those with long ones, as the estimate assumes, and
    one timeout for all would not suit them.
    """
    return summary.distinct_timeouts > _MAX_TIMEOUTS


def find(summary: KindSummary, curve: Curve, waits: Histogram) -> Finding | None:
    """Decide what to do with the timeouts of a kind; None to leave them."""
    if not summary.completed and summary.expired >= MIN_OPERATIONS:
        return Finding(summary, Action.CHECK_KEYS, None)
    if summary.completed < MIN_OPERATIONS or has_own_timeouts(summary):
        return None
    return _find_timeout(summary, curve, waits)


def _find_timeout(summary: KindSummary, curve: Curve, waits: Histogram) -> Finding | None:
    if longer := _longer(summary, curve):
        return Finding(summary, Action.LENGTHEN, longer)
    if shorter := _shorter(summary, curve):
        return Finding(summary, Action.SHORTEN, shorter)
    if summary.expired and _still_rising(summary, waits):
        return Finding(summary, Action.TRY_LONGER, None)
    return None


def _longer(summary: KindSummary, curve: Curve) -> CurvePoint | None:
    """Return the shortest timeout with nearly all completions that the curve knows of."""
    known = [point for point in curve if point.watched >= MIN_OPERATIONS]
    if not known or known[-1].share < summary.now.share + _MORE:
        return None
    gained = known[-1].share - summary.now.share
    point = shortest_timeout(known, summary.now.share + 0.9 * gained)
    return point if point is not None and point.timeout_ms > summary.timeouts_ms[1] else None


def _shorter(summary: KindSummary, curve: Curve) -> CurvePoint | None:
    """Return the shortest timeout that loses hardly a completion; None if it saves little."""
    if not summary.expired:
        return None
    point = shortest_timeout(curve, summary.now.share * (1 - 1 / LOST_COMPLETIONS))
    if point is None or point.timeout_ms > _SHORTER * summary.timeouts_ms[1]:
        return None
    return point


def _still_rising(summary: KindSummary, waits: Histogram) -> bool:
    """Say whether completions still come when the timeout ends the wait."""
    last = _LAST_PART * summary.timeouts_ms[1]
    late = sum(row.completed for row in waits if last < row.value <= summary.timeouts_ms[1])
    return late >= _MORE * summary.operations
