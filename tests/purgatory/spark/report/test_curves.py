"""Completion curves, compared with an estimate in plain Python, row by row."""

import random
from itertools import pairwise

import pytest

from purgatory.spark.report import curves
from purgatory.spark.report.histograms import ALL_KINDS
from tests.testing.journals import make_outcome, random_outcomes, waits_of


def curve_of(rows):
    """Return the curve of outcomes."""
    return curves.completion_curve(ALL_KINDS, waits_of(rows))


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


def test_curve_is_the_estimate():
    """The curve equals the naive estimate."""
    rows = random_outcomes(3, 300)
    assert naive_curve(rows) == [point[1:] for point in curve_of(rows)]


def test_one_timeout_is_the_plain_share():
    """If all timeouts are equal, shares are those of operations completed in time."""
    waits = [1, 2, 3, 4, 5, 6, 7, 8, None, None]
    curve = curve_of([make_outcome(n, 0, 10, wait) for n, wait in enumerate(waits)])
    found = [curves.shortest_timeout(curve, share) for share in (0.5, 0.8, 0.81)]
    assert found.pop() is None
    assert [(p.timeout_ms, p.watched) for p in found] == [(5, 6), (8, 3)]
    assert [p.share for p in found] == pytest.approx([0.5, 0.8])
    # 1 to 5 wait so long, the other five 5; then 1 to 8, and the other two 8.
    assert [p.mean_wait_ms for p in found] == pytest.approx([4.0, 5.2])


@pytest.mark.parametrize("outcome", ["cancelled", "failed"])
def test_short_waits_are_no_failures(outcome):
    """Half end otherwise after 1 s; all that wait longer complete at 2 s: that is the estimate.

    The average wait is the restricted mean: 2 s, where a plain average has 1.5 s.
    """
    rows = [make_outcome(n, 0, 9000, 1000, outcome=outcome) for n in range(5)]
    rows += [make_outcome(n, 0, 9000, 2000) for n in range(5, 10)]
    found = curves.shortest_timeout(curve_of(rows), 0.99)
    assert (found.timeout_ms, found.share, found.watched) == (2000, 1.0, 5)
    assert found.mean_wait_ms == pytest.approx(2000)


def test_between_and_beyond_the_waits():
    """A timeout between two waits completes what the lower one does, and waits for longer."""
    curve = curve_of([make_outcome(n, 0, 40, wait) for n, wait in enumerate((10, 20, 30, None))])
    of = {timeout: curves.at_timeout(curve, timeout)[2:] for timeout in (0, 5, 25, 40, 99)}
    assert of == {
        0: (0.0, 0.0, 4),
        5: (0.0, 5.0, 4),
        25: (0.5, 10 + 7.5 + 2.5, 2),
        40: (0.75, 22.5 + 2.5, 1),
        99: (0.75, 22.5 + 2.5, 1),  # nothing is known beyond the longest wait
    }


def test_several_timeouts_are_averaged():
    """A mixture of timeouts achieves the average of what each does."""
    rows = [make_outcome(0, 0, 10, 5), make_outcome(1, 0, 10), make_outcome(2, 0, 30, 25)]
    curve = curve_of(rows)
    mixed = curves.at_timeouts(
        curve, [waits_of(rows)[0]._replace(value=t) for t in (10, 10, 25)], 10
    )
    at_10, at_25 = (curves.at_timeout(curve, t) for t in (10, 25))
    assert mixed.share == pytest.approx((2 * at_10.share + at_25.share) / 3)
    assert mixed.mean_wait_ms == pytest.approx((2 * at_10.mean_wait_ms + at_25.mean_wait_ms) / 3)


def test_thin_curve_keeps_the_ends():
    """A thinned curve has few points, also the last one, and no gap above a percent."""
    curve = curve_of([make_outcome(n, 0, 10_000, n) for n in range(1, 3001)])
    shares = [point.share for point in curves.thin_curve(curve)]
    assert len(shares) < 300
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert max(b - a for a, b in pairwise(shares)) < 0.0105


@pytest.mark.parametrize("timeout", [40, 10_000])
def test_thin_curve_tells_the_same_timeouts(timeout):
    """What the page says of whole percents is exact: half of the operations, 99 percent."""
    rng = random.Random(2)
    curve = curve_of(
        [make_outcome(n, 0, timeout, int(rng.triangular(0, timeout, 9))) for n in range(5000)]
    )
    thin = curves.thin_curve(curve)
    for percent in range(1, 101):
        share = percent / 100
        assert curves.shortest_timeout(thin, share) == curves.shortest_timeout(curve, share)


@pytest.mark.parametrize(
    ("shares", "named"), [([0], "share is 0"), ([0.5, 1.1], "1.1"), ([], "no")]
)
def test_bad_shares(shares, named):
    """An impossible share is named."""
    with pytest.raises(ValueError, match=named):
        curves.check_shares(shares)
