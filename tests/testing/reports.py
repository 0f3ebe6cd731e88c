"""Reports with a few rows in every table, for the tests of what shows them."""

from itertools import cycle

from purgatory.spark.report.content import (
    Action,
    Bin,
    Change,
    CurvePoint,
    Finding,
    HotKey,
    Kind,
    KindSummary,
    Report,
    Suggestion,
    WeekHour,
    WheelRow,
)

ALL = Kind(True, None)
HOSTILE = '<script>alert("1")</script> & $x^2$ [red]--> \x00 日本 \N{RIGHT-TO-LEFT OVERRIDE}'


def summary(kind, submitted=12, lateness=(0, 0, 0, 3)):
    """Make a summary of ten operations of a kind."""
    now = CurvePoint(kind, 90, 0.7, 40.0, 3)
    ends = {"completed": 6, "failed": 1, "expired": 2, "cancelled": 1}
    waits = (5, 8, 60, 60)
    return KindSummary(
        kind, submitted, 10, **ends, timeouts_ms=(9, 90, 900), now=now,
        completed_waited_ms=waits, lateness_ms=tuple(lateness),
    )  # fmt: skip


def report(*names, **changes):
    """Make a report with rows of every table for each kind."""
    kinds = [ALL, *(Kind(False, name) for name in names)]
    points = {
        k: [CurvePoint(k, t, s, m, 9) for t, s, m in [(1, 0.1, 1.0), (9, 0.7, 5.0)]] for k in kinds
    }
    summaries = tuple(summary(k) for k in kinds)
    waits = (9, None)
    rows = {
        "operations": 10 * len(names),
        "kinds": len(names),
        "first_ms": 1_700_000_000_000,
        "last_ms": 1_700_000_360_000,
        "exact": True,
        "bin_ms": 5000,
        "summaries": summaries,
        "findings": tuple(
            Finding(row, action, points[row.kind][1] if action in PROPOSING else None)
            for row, action in zip(summaries[1:], cycle(Action), strict=False)
        ),
        "bins": tuple(
            Bin(k, 1_700_000_000_000 + n, 2, 1, 1, 0) for n in (0, 10_000) for k in kinds[1:]
        ),
        "week": tuple(WeekHour(n % 7, n % 24, 1 + n, n) for n in range(30)),
        "hot_keys": tuple(HotKey(k, key, 5, 3) for k in kinds for key in (HOSTILE, "plain")),
        "suggestions": tuple(
            Suggestion(k, share, point)
            for k in kinds
            for share, point in [(0.5, points[k][1]), (0.9, None)]
        ),
        "curves": points,
        "wheels": tuple(
            WheelRow(t, s, 3, 40.5, 3, 5e-5, 0.2, 7, 12.5 / t, 0.5, t - 1)
            for t in (1, 10)
            for s in (20, 64)
        ),
        "changes": tuple(Change(k, summary(k), summary(k), waits, waits) for k in kinds),
    }
    return Report(**(rows | changes))


PROPOSING = {Action.SHORTEN, Action.LENGTHEN}
