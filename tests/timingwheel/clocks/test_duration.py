"""Durations: seconds, floats or timedeltas, as whole nanoseconds."""

import math
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timingwheel.clocks.duration import (
    FAST_PATH_MAX_S,
    FAST_PATH_MAX_WHOLE_S,
    MAX_DELAY_NS,
    MAX_DELAY_S,
    moment_to_ns,
    seconds_to_ns,
    tick_to_ns,
    to_ms,
    to_ns,
)

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
    MAX_DELAY_S + 1,
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
        (1, 1_000_000_000),
        (0.001, 1_000_000),
        (0.0003, 300_000),
        (1e-9, 1),
        (1.5e-9, 2),
        (5e-324, 1),
        (16.1, 16_100_000_000),
        (0.3, 300_000_000),
        (0.1 + 0.2, 300_000_001),
        (2.675, 2_675_000_000),
        (4e6, 4 * 10**15),
        (12_345_678.9, 12_345_678_900_000_000),
        (1e9, 10**18),
        (timedelta(milliseconds=5), 5_000_000),
        (timedelta(microseconds=1), 1000),
        (timedelta(), 0),
        (10**9 + 1, (10**9 + 1) * 10**9),
        (timedelta.max, MAX_DELAY_NS),
        (1e10, MAX_DELAY_NS),
        (MAX_DELAY_S, MAX_DELAY_NS),
    ],
)
def test_examples(delay, expected):
    """A delay becomes the fewest nanoseconds that are not less, as it prints."""
    assert expected == to_ns(delay)


@pytest.mark.parametrize(("delay", "expected"), [(0.0015, 2), (0.001, 1), (1e-9, 1), (7, 7000)])
def test_milliseconds_are_rounded_up(delay, expected):
    """to_ms rounds up as to_ns does."""
    assert expected == to_ms(delay)


@pytest.mark.parametrize("delay", BAD_VALUES)
def test_bad_value(delay):
    """NaN, infinity, a negative and an endless delay are ValueErrors that name the value."""
    with pytest.raises(ValueError, match="delay is"):
        to_ns(delay)


@pytest.mark.parametrize("delay", BAD_TYPES)
def test_bad_type(delay):
    """An object that is no number of seconds is a TypeError."""
    with pytest.raises(TypeError, match="delay is"):
        to_ns(delay)


@given(st.floats(min_value=0, max_value=4e9))
def test_never_less_and_less_than_a_nanosecond_more(delay):
    """The result is the decimal that the float prints as, rounded up."""
    assert 0 <= to_ns(delay) - Fraction(repr(delay)) * 10**9 < 1


@given(st.integers(min_value=0, max_value=4 * 10**12))
def test_every_decimal_microsecond_is_exact(delay_us):
    """A float that prints as whole microseconds is that many: no stray tick is added."""
    assert to_ns(delay_us / 10**6) == delay_us * 1000


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=50_000)))
def test_timedelta_is_exact(delay):
    """A timedelta is whole microseconds, and stays so."""
    assert to_ns(delay) == delay // timedelta(microseconds=1) * 1000


@given(st.floats(min_value=0, max_value=FAST_PATH_MAX_S))
def test_the_fast_path_agrees_with_the_checked_one(delay):
    """The fast path converts each float as the checked path does."""
    assert to_ns(delay) == seconds_to_ns("delay", delay)


@pytest.mark.parametrize("us", [0, 1, 300, 16100, 10**12 - 1, 10**12, 3 * 10**12 + 1])
def test_both_paths_agree_around_whole_microseconds(us):
    """The neighbours of each whole microsecond are rounded alike."""
    exact = us / 10**6
    for delay in (math.nextafter(exact, 0), exact, math.nextafter(exact, math.inf)):
        assert to_ns(delay) == seconds_to_ns("delay", delay)


@given(st.integers(min_value=0, max_value=MAX_DELAY_NS // 10**9))
def test_integers_are_exact(seconds):
    """No digit of a large int is lost, as a float would lose it."""
    assert to_ns(seconds) == seconds * 10**9


@pytest.mark.parametrize("seconds", [0, 1, FAST_PATH_MAX_WHOLE_S - 1, FAST_PATH_MAX_WHOLE_S])
def test_the_fast_path_of_integers_agrees_with_the_checked_one(seconds):
    """Where the fast path ends, ints are converted as before."""
    assert to_ns(seconds) == seconds_to_ns("delay", seconds) == seconds * 10**9


@pytest.mark.parametrize(
    ("tick_ms", "expected"), [(1, 1_000_000), (0.01, 10_000), (0.1, 100_000), (2.5, 2_500_000)]
)
def test_ticks(tick_ms, expected):
    """A tick may be a fraction of a millisecond."""
    assert tick_to_ns(tick_ms, 10_000) == expected


@pytest.mark.parametrize("tick_ms", [0, 0.009, -1, math.nan, math.inf, 10**18])
def test_bad_ticks(tick_ms):
    """A tick that is too short, or no number, is a ValueError."""
    with pytest.raises(ValueError, match="tick_ms is"):
        tick_to_ns(tick_ms, 10_000)


@pytest.mark.parametrize(
    ("nanoseconds", "more"), [(0, 0), (999, 999), (3_600_000_000_007, 7), (str, 0), (True, 0)]
)
def test_a_timedelta_with_nanoseconds(nanoseconds, more):
    """Nanoseconds below a microsecond count, in a delay and in a moment: a task is not early."""

    class Fine(timedelta):
        pass

    Fine.nanoseconds = nanoseconds
    fine = Fine(hours=1)

    class When(datetime):
        def __sub__(self, other):
            return fine

    assert to_ns(fine) == 3600 * 10**9 + more
    assert moment_to_ns(When(2026, 1, 1, tzinfo=UTC), 5, 0) == 5 + 3600 * 10**9 + more


@pytest.mark.parametrize("tick_ms", BAD_TYPES)
def test_bad_types_of_ticks(tick_ms):
    """A tick that is no int or float is a TypeError."""
    with pytest.raises(TypeError, match="tick_ms is"):
        tick_to_ns(tick_ms, 10_000)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
@pytest.mark.parametrize("us", [-3_600_000_000, -1, 0, 1, 1_500_000, 86_400_000_000])
def test_a_datetime_counts_from_the_wall_clock(zone, us):
    """Its distance is added to the reading, in whole microseconds, whatever its zone is."""
    wall = datetime(2026, 1, 1, 12, tzinfo=UTC)
    when = (wall + timedelta(microseconds=us)).astimezone(zone)
    wall_ns = int(wall.timestamp()) * 10**9
    assert moment_to_ns(when, 7, wall_ns) == 7 + us * 1000


@pytest.mark.parametrize("when", [*BAD_TYPES, timedelta(1)])
def test_no_moment(when):
    """The error for an object that is no moment names both kinds of moments."""
    with pytest.raises(TypeError, match=r"when is .*; expected seconds or an aware datetime"):
        moment_to_ns(when, 7, 10**18)


@pytest.mark.parametrize("when", [-5, 0, 2.5, 100])
def test_seconds_are_a_reading_of_the_clock(when):
    """Of whatever time is now."""
    assert moment_to_ns(when, 7, 10**18) == when * 10**9
