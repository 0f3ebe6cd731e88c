"""The measurements of a timer, and the quantiles of their figures."""

import numpy as np
import pytest
import timer_work
from hypothesis import given
from hypothesis import strategies as st


def test_stalls():
    """Every call is in the histogram, up to the interval of the longest."""
    figures = timer_work.stall("timingwheel", 2000)
    filled = [place for place, count in enumerate(figures["calls"]) if count]
    assert len(figures["calls"]) == len(timer_work.STALL_EDGES) + 1
    edges = (0, *timer_work.STALL_EDGES, float("inf"))
    assert edges[filled[-1]] < figures["longest"] <= edges[filled[-1] + 1]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.integers(2, 200))
def test_quantiles(values, parts):
    """Quantiles equal numpy's, the extremes included."""
    expected = np.quantile(values, np.linspace(0, 1, parts + 1))
    assert timer_work.quantiles(values, parts) == pytest.approx(expected, abs=1e-6)
