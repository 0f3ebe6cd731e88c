"""ClockReader: how a timer reads a clock, and where the time of a deadline is rounded."""

import threading
import time

import freezegun
import pytest

from timingwheel import ManualClock, Timer, monotonic_ms
from timingwheel.clock_reader import ClockReader, MonotonicClockReader, clock_reader_for


def test_the_default_counts_deadlines_from_the_millisecond_that_has_begun():
    """now_rounded_up_ms is never before the true time: no deadline is too early."""
    reader = MonotonicClockReader()
    for _ in range(200):
        before = time.monotonic_ns()
        assert reader.now_rounded_up_ms() * 1_000_000 >= before
        assert reader.now_ms() * 1_000_000 <= time.monotonic_ns()


def test_the_default_waits_to_the_nanosecond():
    """The wait for a reading ends when the clock reads it, not before or after."""
    reader = MonotonicClockReader()
    when_ms = reader.now_ms() + 10_000
    assert 9.9 < reader.seconds_until(when_ms) <= 10
    assert reader.seconds_until(reader.now_ms() - 5) == 0


def test_clock_reader_for():
    """None and monotonic_ms are read to the nanosecond, other clocks in milliseconds."""
    assert isinstance(clock_reader_for(None), MonotonicClockReader)
    assert isinstance(clock_reader_for(monotonic_ms), MonotonicClockReader)
    reader = clock_reader_for(lambda: -7)
    assert type(reader) is ClockReader
    assert (reader.now_ms(), reader.now_rounded_up_ms()) == (-7, -7)
    assert reader.seconds_until(993) == 1.0


def test_how_long_to_sleep():
    """A timer on a manual clock sleeps until woken, on any other for the delay."""
    manual, real = clock_reader_for(ManualClock()), clock_reader_for(lambda: 0)
    assert [manual.real_sleep(delay) for delay in (None, 0.0, 5.0)] == [None, 0.0, None]
    assert [real.real_sleep(delay) for delay in (None, 0.0, 5.0)] == [None, 0.0, 5.0]
    assert MonotonicClockReader().real_sleep(5.0) == 5.0
    with freezegun.freeze_time("2026-01-01"):
        assert 0 < MonotonicClockReader().real_sleep(5.0) < 1
        assert MonotonicClockReader().real_sleep(None) is None


@pytest.mark.parametrize("clock", [5, "now", time.monotonic, lambda: None, lambda: True])
def test_a_clock_that_yields_no_milliseconds(clock):
    """An object that is no clock is refused when the timer is made."""
    with pytest.raises(TypeError, match="clock"):
        Timer(clock=clock)


def test_a_frozen_clock_is_frozen_for_deadlines_in_every_thread():
    """A deadline counts from the frozen time, also in a thread that freezegun takes for its own."""
    readings = []
    with freezegun.freeze_time("2026-01-01") as frozen:
        reader = MonotonicClockReader()

        def read():
            readings.append((reader.now_ms(), reader.now_rounded_up_ms()))

        for _ in range(2):
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
            frozen.tick(5)
    (now, rounded), (later, later_rounded) = readings
    assert rounded in (now, now + 1)
    assert (later - now, later_rounded - rounded) == (5000, 5000)
