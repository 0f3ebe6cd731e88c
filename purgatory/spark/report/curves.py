"""Completion curves: what each timeout would achieve, estimated from the waits.

An operation that expired after 5 s takes longer than 5 s; how much is unknown. For such *censored*
waits the estimate is Kaplan's and Meier's (1958), which counts each operation for as long as it was
watched. Operations that failed, were cancelled or had a short timeout do not count as failures of a
longer timeout.

The average wait of a timeout is the *restricted mean*: the area below the curve of those that still
wait, up to the timeout.

The estimate assumes that operations with short and long timeouts would complete alike.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import floor, log10
from operator import attrgetter
from typing import Final

from purgatory.spark.report.content import CurvePoint, Kind
from purgatory.spark.report.histograms import Histogram

Curve = Sequence[CurvePoint]
"""The points of one kind, by ascending timeout."""

# A share this little below counts as reached: shares are products of fractions.
_EPSILON: Final = 1e-9
_timeout_ms: Final = attrgetter("timeout_ms")


def completion_curve(kind: Kind, waits: Histogram) -> list[CurvePoint]:
    """Estimate share completed and average wait at each wait that occurs."""
    points = []
    watched = sum(row.ended for row in waits)
    waiting, area, before = 1.0, 0.0, 0
    for row in waits:
        area += waiting * (row.value - before)
        waiting *= 1 - row.completed / watched
        points.append(CurvePoint(kind, row.value, 1 - waiting, area, watched))
        watched -= row.ended
        before = row.value
    return points


def check_shares(shares: Sequence[float]) -> None:
    """Raise ValueError for no shares, and for one outside (0, 1]."""
    if not shares:
        raise ValueError("no shares; expected at least one")
    for share in shares:
        if not 0 < share <= 1:
            raise ValueError(f"share is {share!r}; expected more than 0 and at most 1")


def shortest_timeout(curve: Curve, share: float) -> CurvePoint | None:
    """Return the point of the shortest timeout that reaches a share, or None."""
    return next((point for point in curve if point.share >= share - _EPSILON), None)


def at_timeout(curve: Curve, timeout_ms: int) -> CurvePoint:
    """Return the effect of a timeout, at most that of the longest wait."""
    place = bisect_right(curve, timeout_ms, key=_timeout_ms)
    if place == len(curve):
        return curve[-1]
    before = curve[place - 1] if place else CurvePoint(curve[0].kind, 0, 0.0, 0.0, 0)
    wait = before.mean_wait_ms + (1 - before.share) * (timeout_ms - before.timeout_ms)
    return CurvePoint(before.kind, timeout_ms, before.share, wait, curve[place].watched)


def at_timeouts(curve: Curve, timeouts: Histogram, timeout_ms: int) -> CurvePoint:
    """Return the average effect of a mixture of timeouts, named `timeout_ms` in the result."""
    total = sum(row.ended for row in timeouts)
    share = wait = 0.0
    for row in timeouts:
        point = at_timeout(curve, row.value)
        share += point.share * row.ended / total
        wait += point.mean_wait_ms * row.ended / total
    return CurvePoint(curve[0].kind, timeout_ms, share, wait, at_timeout(curve, timeout_ms).watched)


def thin_curve(curve: Curve) -> list[CurvePoint]:
    """Reduce a curve to a few hundred points.

    Gaps are at most a percent of the share, or a tenth of the timeout. The shortest timeouts of
    whole percents, and the longest, are kept.
    """
    cells: dict[tuple[int, int], CurvePoint] = {}
    for point in curve:
        percent = floor(100 * (point.share + _EPSILON))
        cells.setdefault((percent, round(24 * log10(point.timeout_ms + 1))), point)
    return list(dict.fromkeys((*cells.values(), *curve[-1:])))
