"""Suggested timeouts, compared with an estimate in plain Python."""

from itertools import pairwise

import pytest

from purgatory.spark.report import timeout_suggestions
from tests.testing.journals import make_outcome, outcomes_frame, random_outcomes


def naive_curve(rows):
    """Estimate by Kaplan and Meier, row by row: wait, share completed, mean wait, watched."""
    points, left, area, before = [], 1.0, 0.0, 0
    for wait in sorted({r.waited_ms for r in rows}):
        watched = sum(r.waited_ms >= wait for r in rows)
        completed = sum(r.waited_ms == wait and r.outcome == "completed" for r in rows)
        area += left * (wait - before)
        left *= 1 - completed / watched
        before = wait
        points.append((wait, pytest.approx(1 - left), pytest.approx(area), watched))
    return points


def curve_of(found, total, kind=None):
    """Return the points of one kind, sorted."""
    points = [
        (r.timeout_ms, r.share, r.mean_wait_ms, r.watched)
        for r in found
        if (r.total, r.kind) == (total, kind)
    ]
    return sorted(points)


def test_curve_is_the_estimate(spark):
    """The curves of each kind and of all kinds equal the naive estimate."""
    rows = random_outcomes(3, 300)
    found = timeout_suggestions.completion_curve(outcomes_frame(spark, rows), exact=True).collect()
    assert naive_curve(rows) == curve_of(found, True)
    for kind in ("a", "b", "", "rare"):
        assert naive_curve([r for r in rows if r.kind == kind]) == curve_of(found, False, kind)


def test_one_timeout_is_the_plain_share(spark):
    """If all timeouts are equal, shares are those of operations completed in time."""
    waits = [1, 2, 3, 4, 5, 6, 7, 8, None, None]
    rows = [make_outcome(n, 0, 10, wait) for n, wait in enumerate(waits)]
    curve = timeout_suggestions.completion_curve(outcomes_frame(spark, rows), exact=True)
    found = timeout_suggestions.suggest_timeouts(curve, [0.5, 0.8, 0.81]).where("total").collect()
    assert [(r.wanted, r.timeout_ms, r.watched) for r in found] == [(0.5, 5, 6), (0.8, 8, 3)]
    assert [r.share for r in found] == pytest.approx([0.5, 0.8])
    # 1 to 5 wait so long, the other five 5; then 1 to 8, and the other two 8.
    assert [r.mean_wait_ms for r in found] == pytest.approx([4.0, 5.2])


def test_short_timeouts_are_no_failures(spark):
    """Half expire after 1 s; all that wait longer complete at 2 s, which is then suggested."""
    rows = [make_outcome(n, 0, 1000) for n in range(5)] + [
        make_outcome(n, 0, 9000, 2000) for n in range(5, 10)
    ]
    curve = timeout_suggestions.completion_curve(outcomes_frame(spark, rows), exact=True)
    (found,) = timeout_suggestions.suggest_timeouts(curve, [0.99]).where("total").collect()
    assert (found.timeout_ms, found.share, found.watched) == (2000, 1.0, 5)
    assert found.mean_wait_ms == pytest.approx(2000)


def test_long_waits_are_rounded_up(spark):
    """Unless exact, waits of 10 s and more are rounded up, never down, to four digits."""
    waits = [0, 9_999, 10_000, 10_001, 123_456, 999_999]
    rows = [make_outcome(n, 0, 10**7, wait) for n, wait in enumerate(waits)]
    curve = timeout_suggestions.completion_curve(outcomes_frame(spark, rows), exact=False)
    found = sorted(r.timeout_ms for r in curve.where("total").collect())
    assert found == [0, 9_999, 10_000, 10_010, 123_500, 1_000_000]


def test_thin_curve_keeps_the_ends(spark):
    """A thinned curve has few points, also the last one, and no gap above a percent."""
    rows = [make_outcome(n, 0, 10_000, n) for n in range(1, 3001)]
    curve = timeout_suggestions.completion_curve(outcomes_frame(spark, rows), exact=True)
    shares = [r.share for r in timeout_suggestions.thin_curve(curve).where("total").collect()]
    assert len(shares) < 300
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert max(b - a for a, b in pairwise(shares)) < 0.0105


@pytest.mark.parametrize(
    ("shares", "named"), [([0], "share is 0"), ([0.5, 1.1], "1.1"), ([], "no")]
)
def test_bad_shares(shares, named):
    """An impossible share is named."""
    with pytest.raises(ValueError, match=named):
        timeout_suggestions.check_shares(shares)
