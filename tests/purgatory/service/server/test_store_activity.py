"""StoreActivity: the numbers of the commits."""

import pytest

from purgatory.service.server.store_activity import COMMIT_BOUNDS_S, StoreActivity


def test_the_histogram_of_commits():
    """Each commit is in the bucket of the least bound that it does not exceed."""
    now = [1_000_000_000]
    activity = StoreActivity(lambda: now[0])
    for seconds in (0.0, COMMIT_BOUNDS_S[2], 3.0, 100.0):
        activity.commit_since_ns = now[0]
        now[0] += round(seconds * 1e9)
        activity.commit_succeeded()
    counts = dict(zip((*COMMIT_BOUNDS_S, None), activity.commit_counts, strict=True))
    assert {bound for bound, count in counts.items() if count} == {
        COMMIT_BOUNDS_S[0],
        COMMIT_BOUNDS_S[2],
        5.0,
        None,
    }
    assert activity.commit_seconds == pytest.approx(103.001)
