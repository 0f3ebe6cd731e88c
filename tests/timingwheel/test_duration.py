"""Durations: seconds, floats or timedeltas, as whole milliseconds."""

import math
from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timingwheel.duration import FAST_PATH_MAX_S, MAX_DELAY_MS, to_ms, to_ms_checked

BAD_VALUES = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    -1e-9,
    -0.5,
    -1e308,
    -(10**400),
    1e308,
    1e300,
    10**30,
    MAX_DELAY_MS,
    timedelta(microseconds=-1),
    timedelta(days=-1),
]
BAD_TYPES = ["1", None, True, 1j, [1], b"1", object()]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (1, 1000),
        (0.001, 1),
        (0.0015, 2),
        (0.0025, 3),
        (1e-9, 1),
        (5e-324, 1),
        (16.1, 16100),
        (0.3, 300),
        (1.001, 1001),
        (2.675, 2675),
        (1e9, 10**12),
        (timedelta(milliseconds=5), 5),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1001), 2),
        (timedelta(), 0),
        (timedelta.max, 86_400_000 * 1_000_000_000),
        (MAX_DELAY_MS // 1000, MAX_DELAY_MS // 1000 * 1000),
    ],
)
def test_examples(delay, expected):
    """A delay becomes the fewest milliseconds that are not less, as it prints."""
    assert expected == to_ms(delay)


@pytest.mark.parametrize("delay", BAD_VALUES)
def test_bad_value(delay):
    """NaN, infinity, a negative and an endless delay are ValueErrors that name the value."""
    with pytest.raises(ValueError, match="delay is"):
        to_ms(delay)


@pytest.mark.parametrize("delay", BAD_TYPES)
def test_bad_type(delay):
    """An object that is no number of seconds is a TypeError."""
    with pytest.raises(TypeError, match="delay is"):
        to_ms(delay)


@given(st.floats(min_value=0, max_value=1e12))
def test_never_less_and_less_than_a_millisecond_more(delay):
    """The result is at least the delay, and no whole millisecond beyond it."""
    result = to_ms(delay)
    assert result / 1000 >= delay
    assert Fraction(result) - Fraction(delay) * 1000 < 1


@given(st.integers(min_value=0, max_value=10**12))
def test_every_decimal_millisecond_is_exact(delay_ms):
    """A float that prints as whole milliseconds is that many: no stray tick is added."""
    assert to_ms(delay_ms / 1000) == delay_ms


@given(st.timedeltas(min_value=timedelta()))
def test_timedelta_rounds_up(delay):
    """A timedelta is rounded up to a millisecond, exactly."""
    result = timedelta(milliseconds=1) * to_ms(delay) if delay < timedelta.max / 2 else delay
    assert timedelta() <= result - delay < timedelta(milliseconds=1)


@given(st.floats(min_value=0, max_value=FAST_PATH_MAX_S))
def test_the_fast_path_agrees_with_the_checked_one(delay):
    """The fast path converts each float as the checked path does."""
    assert to_ms(delay) == to_ms_checked(delay)


@pytest.mark.parametrize("ms", [0, 1, 16100, 10**12 - 1, 10**12, 10**12 + 1])
def test_both_paths_agree_around_whole_milliseconds(ms):
    """The neighbours of each whole millisecond are rounded alike."""
    exact = ms / 1000
    for delay in (math.nextafter(exact, 0), exact, math.nextafter(exact, math.inf)):
        assert to_ms(delay) == to_ms_checked(delay)


@given(st.integers(min_value=0, max_value=MAX_DELAY_MS // 1000))
def test_integers_are_exact(seconds):
    """No digit of a large int is lost, as a float would lose it."""
    assert to_ms(seconds) == seconds * 1000
