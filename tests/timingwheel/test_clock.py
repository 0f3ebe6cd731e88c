"""The clock module: seconds to milliseconds, the manual clock, and how a timer reads a clock."""

import gc
import math
import time
from datetime import timedelta
from fractions import Fraction

import freezegun
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timingwheel import ManualClock, Timer, monotonic_ms
from timingwheel._freezegun import real_seconds
from timingwheel.clock_reader import ClockReader, MonotonicClockReader, clock_reader_for
from timingwheel.duration import MAX_DELAY_MS
from timingwheel.lowlevel import to_ms

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


class TestToMs:
    """Seconds, floats or timedeltas, as whole milliseconds."""

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
    def test_examples(self, delay, expected):
        """A delay becomes the fewest milliseconds that are not less, as it prints."""
        assert expected == to_ms(delay)

    @pytest.mark.parametrize("delay", BAD_VALUES)
    def test_bad_value(self, delay):
        """NaN, infinity, a negative and an endless delay are ValueErrors that name the value."""
        with pytest.raises(ValueError, match="delay is"):
            to_ms(delay)

    @pytest.mark.parametrize("delay", BAD_TYPES)
    def test_bad_type(self, delay):
        """What is no number of seconds is a TypeError."""
        with pytest.raises(TypeError, match="delay is"):
            to_ms(delay)

    @given(st.floats(min_value=0, max_value=1e12))
    def test_never_less_and_less_than_a_millisecond_more(self, delay):
        """The result is at least the delay, and no whole millisecond beyond it."""
        result = to_ms(delay)
        assert result / 1000 >= delay
        assert Fraction(result) - Fraction(delay) * 1000 < 1

    @given(st.integers(min_value=0, max_value=10**12))
    def test_every_decimal_millisecond_is_exact(self, delay_ms):
        """A float that prints as whole milliseconds is that many: no stray tick is added."""
        assert to_ms(delay_ms / 1000) == delay_ms

    @given(st.timedeltas(min_value=timedelta()))
    def test_timedelta_rounds_up(self, delay):
        """A timedelta is rounded up to a millisecond, exactly."""
        result = timedelta(milliseconds=1) * to_ms(delay) if delay < timedelta.max / 2 else delay
        assert timedelta() <= result - delay < timedelta(milliseconds=1)


class Ear:
    """Counts what it hears of a clock."""

    def __init__(self):
        self.heard = 0

    def hear(self):
        """Count one move."""
        self.heard += 1


class TestManualClock:
    """A clock that is moved by hand."""

    def test_starts_at_zero_and_stands_still(self):
        """It reads its start until it is moved."""
        clock = ManualClock()
        assert [clock(), clock()] == [0, 0]

    def test_advance_takes_seconds_and_timedeltas(self):
        """It moves by seconds, rounded up to milliseconds, from any start."""
        clock = ManualClock(-250)
        clock.advance(0.25)
        assert clock() == 0
        clock.advance(timedelta(hours=1))
        clock.advance(2)
        assert clock() == 3_602_000

    @pytest.mark.parametrize("seconds", BAD_VALUES)
    def test_never_goes_back(self, seconds):
        """A bad step is refused and moves nothing."""
        clock = ManualClock(7)
        with pytest.raises(ValueError, match="delay is"):
            clock.advance(seconds)
        assert clock() == 7

    def test_advance_to(self):
        """It may be set to a reading, forwards only."""
        clock = ManualClock(5)
        clock.advance_to(5)
        clock.advance_to(9)
        with pytest.raises(ValueError, match="cannot go back"):
            clock.advance_to(8)
        assert clock() == 9

    @pytest.mark.parametrize("bad", [1.5, "1", None, True])
    def test_readings_are_whole_milliseconds(self, bad):
        """Neither start nor reading may be anything but an int."""
        with pytest.raises(TypeError, match="whole milliseconds"):
            ManualClock(bad)
        clock = ManualClock()
        with pytest.raises(TypeError, match="whole milliseconds"):
            clock.advance_to(bad)
        assert clock() == 0

    def test_tells_who_listens_while_they_live(self):
        """Listeners hear each move; the clock keeps none of them alive."""
        clock, ear = ManualClock(), Ear()
        clock.on_advance(ear.hear)
        clock.advance(1)
        clock.advance(0)
        assert ear.heard == 2
        del ear
        gc.collect()
        clock.advance(1)
        another = Ear()
        clock.on_advance(another.hear)
        assert len(clock._listeners) == 1

    def test_repr_shows_the_reading(self):
        """The reading is what one wants to see in a debugger."""
        assert repr(ManualClock(12)) == "<ManualClock 12 ms>"


class TestTimeSource:
    """How a timer reads a clock."""

    def test_the_default_counts_deadlines_from_the_millisecond_that_has_begun(self):
        """The ceiling is never before the true time: no deadline is too early."""
        reader = MonotonicClockReader()
        for _ in range(200):
            before = time.monotonic_ns()
            assert reader.now_rounded_up_ms() * 1_000_000 >= before
            assert reader.now_ms() * 1_000_000 <= time.monotonic_ns()

    def test_the_default_waits_to_the_nanosecond(self):
        """The wait for a reading ends when the clock reads it, not before or after."""
        reader = MonotonicClockReader()
        when_ms = reader.now_ms() + 10_000
        assert 9.9 < reader.seconds_until(when_ms) <= 10
        assert reader.seconds_until(reader.now_ms() - 5) == 0

    def test_choice_of_source(self):
        """None and monotonic_ms mean nanoseconds; any other callable its milliseconds."""
        assert isinstance(clock_reader_for(None), MonotonicClockReader)
        assert isinstance(clock_reader_for(monotonic_ms), MonotonicClockReader)
        reader = clock_reader_for(lambda: -7)
        assert type(reader) is ClockReader
        assert (reader.now_ms(), reader.now_rounded_up_ms()) == (-7, -7)
        assert reader.seconds_until(993) == 1.0

    def test_how_long_to_sleep(self):
        """For a manual clock until woken; for any other as long as it takes."""
        manual, real = clock_reader_for(ManualClock()), clock_reader_for(lambda: 0)
        assert [manual.real_sleep(delay) for delay in (None, 0.0, 5.0)] == [None, 0.0, None]
        assert [real.real_sleep(delay) for delay in (None, 0.0, 5.0)] == [None, 0.0, 5.0]
        assert MonotonicClockReader().real_sleep(5.0) == 5.0
        with freezegun.freeze_time("2026-01-01"):
            assert 0 < MonotonicClockReader().real_sleep(5.0) < 1
            assert MonotonicClockReader().real_sleep(None) is None

    @pytest.mark.parametrize("clock", [5, "now", time.monotonic, lambda: None, lambda: True])
    def test_a_clock_that_yields_no_milliseconds(self, clock):
        """A clock that is none is refused when the timer is made, not at the first add."""
        with pytest.raises(TypeError, match="clock"):
            Timer(clock=clock)


class TestFreezegun:
    """The default clock under freezegun."""

    def test_frozen_time_is_honoured(self):
        """The default clock stands still while frozen, and moves with the frozen time."""
        with freezegun.freeze_time("2026-01-01") as frozen:
            start = monotonic_ms()
            assert monotonic_ms() == start
            frozen.tick(1.5)
            assert monotonic_ms() == start + 1500

    def test_real_seconds_go_on(self):
        """What bounds a wait is not frozen."""
        with freezegun.freeze_time("2026-01-01"):
            start = real_seconds()
            while real_seconds() == start:
                pass
        assert 0 < real_seconds() - start < 60
