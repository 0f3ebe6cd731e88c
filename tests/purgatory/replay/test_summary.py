"""ReplaySummary: its `WaitQuantiles` are quantiles in bounded memory."""

import math

from hypothesis import given
from hypothesis import strategies as st

from purgatory.replay.summary import WaitQuantiles


def counted(waits_ms):
    """Make WaitQuantiles that have counted a list."""
    waits = WaitQuantiles()
    for waited_ms in waits_ms:
        waits.count(waited_ms)
    return waits


def test_empty():
    """Without waits there is no quantile."""
    assert WaitQuantiles().quantile(0.5) is None


@given(st.lists(st.integers(0, 9_999), min_size=1), st.floats(0.001, 1))
def test_short_waits_are_exact(waits_ms, share):
    """Below ten seconds a quantile is the nearest-rank one."""
    rank = math.ceil(share * len(waits_ms) - 1e-9)
    assert counted(waits_ms).quantile(share) == sorted(waits_ms)[max(0, rank - 1)]


@given(st.lists(st.integers(0, 2**63), min_size=1))
def test_long_waits_are_right_to_a_thousandth(waits_ms):
    """Above that it is at most 0.1 % too small."""
    longest = counted(waits_ms).quantile(1)
    assert max(waits_ms) * 0.999 <= longest <= max(waits_ms)


def test_memory_is_bounded():
    """A million different waits take a few thousand counters."""
    waits = counted(range(0, 10_000_000, 10))
    assert len(waits._counts) < 30_000


def test_adding_is_counting_both():
    """Two added together have the quantiles of one that counted all."""
    left, right = counted([1, 2, 3]), counted([3, 400_000])
    left.add(right)
    assert left.quantile(0.5) == 3
    assert left.quantile(1) == 400_000
