"""ClockReader: how a timer reads a clock, and where the time of a deadline is rounded."""

import threading
import time
from datetime import timedelta

import freezegun
import pytest

from timingwheel import COMPILED, ManualClock, Timer, monotonic_ms
from timingwheel.clocks.clock_reader import ClockReader, MonotonicClockReader, clock_reader_for


def test_the_default_is_exact():
    """The reading is the system's, to the nanosecond."""
    reader = MonotonicClockReader()
    for _ in range(200):
        before = time.monotonic_ns()
        assert before <= reader.now_ns() <= monotonic_ms.now_ns() <= time.monotonic_ns()
    assert monotonic_ms() == pytest.approx(time.monotonic() * 1000, abs=30_000)


def test_the_default_waits_to_the_nanosecond():
    """The wait for a reading ends when the clock reads it, not before or after."""
    reader = MonotonicClockReader()
    when_ns = reader.now_ns() + 10 * 10**9
    assert 9.9 < reader.seconds_until(when_ns) <= 10
    assert reader.seconds_until(reader.now_ns() - 5) == 0


def test_clock_reader_for():
    """Clocks that have now_ns are read by that, others in milliseconds."""
    assert isinstance(clock_reader_for(None), MonotonicClockReader)
    assert isinstance(clock_reader_for(monotonic_ms), MonotonicClockReader)
    reader = clock_reader_for(lambda: -7)
    assert type(reader) is ClockReader
    assert reader.now_ns() == -7_000_000
    assert reader.seconds_until(993_000_000) == 1.0
    clock = ManualClock(3)
    clock.advance(1e-9)
    assert clock_reader_for(clock).now_ns() == 3_000_001


@pytest.mark.parametrize("has_now_ns", [True, False])
@pytest.mark.parametrize("reading", [1.5, "1", None])
def test_a_clock_whose_readings_are_no_ints_any_more(has_now_ns, reading):
    """A TypeError, and nothing is added."""

    class Clock:
        reading = 0

        def __call__(self):
            return self.reading

    if has_now_ns:
        Clock.now_ns = Clock.__call__
    timer = Timer(clock=Clock())
    Clock.reading = reading
    with pytest.raises(TypeError):
        timer.schedule(1, print)
    assert len(timer) == 0
    Clock.reading = 0
    timer.close()


def test_a_clock_beyond_its_range():
    """A reading that leaves no room for a delay is a ValueError, when it is read or added to."""
    with pytest.raises(ValueError, match="the clock reads"):
        Timer(clock=lambda: 2**62)

    class Far:
        def __call__(self):
            return 2**62 // 10**6

        def now_ns(self):
            return 2**62

    with pytest.raises(ValueError, match="the clock reads 4611686018427387904 ns"):
        Timer(clock=Far()).schedule(1, print)
    with pytest.raises(ValueError, match="start_ms is"):
        ManualClock(2**62)
    with pytest.raises(ValueError, match="cannot advance"):
        ManualClock().advance(timedelta.max)


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
            readings.append(reader.now_ns())

        for _ in range(2):
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
            frozen.tick(5)
    now, later = readings
    assert later - now == 5 * 10**9


@pytest.mark.parametrize(
    "reading", [0.5, float("nan"), "1", True, None, 10**30, -(10**30)], ids=repr
)
def test_a_bad_reading_in_nanoseconds(reading):
    """It is refused where the clock is given."""

    class Clock:
        def __call__(self):
            return 0

        def now_ns(self):
            return reading

    with pytest.raises(
        (TypeError, ValueError), match=r"now_ns of the clock is .*; expected|the clock reads"
    ):
        clock_reader_for(Clock())
    Clock.now_ns = 5
    with pytest.raises(TypeError, match="now_ns of the clock is 5; expected a method"):
        clock_reader_for(Clock())


@pytest.mark.parametrize("reading", [1.5, 1.0, "1", None, *([] if COMPILED else [True])], ids=repr)
def test_a_reading_that_is_no_int(reading):
    """It is refused, and the next good one counts; a subclass of int is an int."""

    class Milliseconds(int):
        pass

    readings = [reading, Milliseconds(7), 8]
    reader = ClockReader(lambda: readings.pop(0))
    with pytest.raises(
        TypeError, match=r"a reading of the clock is .*; expected whole milli|int object"
    ):
        reader.now_ns()
    assert [reader.now_ns(), reader.now_ns()] == [7_000_000, 8_000_000]
