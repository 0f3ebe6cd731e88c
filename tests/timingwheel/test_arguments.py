"""Numbers that compare, convert and print themselves as they like are plain numbers here."""

import numpy as np
import pytest

from tests.testing.odd_numbers import BAD_DELAYS, HALVES, TWOS, LyingFloat, LyingInt
from timingwheel import InlineExecutor, ManualClock, Timer, TimerTask
from timingwheel.arguments import MAX_COUNT, check_count, plain_number
from timingwheel.clocks.duration import to_ms, to_ns


class TestPlainNumber:
    @pytest.mark.parametrize("value", [np.float64(2), LyingFloat(2), 2.0, *TWOS, 2])
    def test_is_exact(self, value):
        """A subclass becomes a float or an int of the same value."""
        number = plain_number(value)
        assert type(number) in (int, float)
        assert number == 2

    @pytest.mark.parametrize("value", [True, None, "2", np.int64(2), np.float32(2), 2j])
    def test_of_other_objects(self, value):
        """What is neither a float nor an int, or is a bool, is no number."""
        assert plain_number(value) is None

    @pytest.mark.parametrize(
        ("count", "error"),
        [(0, ValueError), (LyingInt(0), ValueError), (MAX_COUNT + 1, ValueError)]
        + [(value, TypeError) for value in (True, 1.0, np.float64(1), np.int64(1), None)],
    )
    def test_counts(self, count, error):
        """A count is an int within its bounds."""
        with pytest.raises(error, match="slots is"):
            check_count("slots", count, 1)
        assert [check_count("slots", two, 1) for two in TWOS] == [2, 2]


class TestDelays:
    @pytest.mark.parametrize("half", HALVES)
    def test_are_converted(self, half):
        """Whatever a number's comparisons return, its value counts."""
        assert to_ns(half) == 500_000_000
        assert to_ms(half) == 500

    @pytest.mark.parametrize("two", TWOS)
    def test_of_whole_seconds(self, two):
        """A subclass of int counts as its value."""
        assert to_ns(two) == 2_000_000_000

    @pytest.mark.parametrize("value", BAD_DELAYS)
    def test_bad_values(self, value):
        """A negative one is refused even if it says that it is not."""
        with pytest.raises(ValueError, match="delay is"):
            to_ns(value)

    @pytest.mark.parametrize("value", [np.int64(1), np.float32(1), np.timedelta64(1, "s"), True])
    def test_other_types(self, value):
        """numpy's other numbers are no floats and no ints of Python."""
        with pytest.raises(TypeError, match="delay is"):
            to_ns(value)


class TestTimer:
    @pytest.mark.parametrize("half", HALVES)
    def test_every_argument(self, half):
        """Each public argument that is a duration takes any float, int or timedelta."""
        clock, ran = ManualClock(), []
        with Timer(clock=clock, executor=InlineExecutor()) as timer:
            timer.schedule(half, ran.append, 1)
            timer.add(TimerTask(half, ran.append, 2))
            timer.schedule_many([half], ran.append, 3)
            task = timer.schedule(9, ran.append, 4)
            assert timer.reschedule(task, half)
            timer.every(half, ran.append, 5, first=half)
            clock.advance(half)
            while timer.advance_clock():
                pass
            timer.advance_clock(half / 100 if type(half) is np.float64 else 0)
            assert sorted(ran) == [1, 2, 3, 4, 5]
            timer.close(timeout=half)

    @pytest.mark.parametrize("half", [value for value in HALVES if isinstance(value, float)])
    def test_ticks_and_moments(self, half):
        """A tick and a moment are floats, too."""
        clock, ran = ManualClock(), []
        timer = Timer(clock=clock, executor=InlineExecutor(), tick_ms=half)
        assert timer.levels()[0].tick_ms == 0.5
        assert timer.schedule_at(half, ran.append, 1).when() == 0.5

    @pytest.mark.parametrize("two", TWOS)
    def test_counts(self, two):
        """A count of slots, tasks or milliseconds may be any int."""
        timer = Timer(tick_ms=two, wheel_size=two, max_pending=two, clock=ManualClock(two))
        assert (timer.levels()[0].tick_ms, len(timer.levels()[0].slots)) == (2, 2)
        clock = ManualClock()
        clock.advance_to(two)
        assert clock() == 2
