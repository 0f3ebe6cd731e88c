"""ManualClock: a clock that is moved by hand."""

import copy
import gc
import math
import pickle
from datetime import timedelta

import pytest

from timingwheel import ManualClock, monotonic_ms

BAD_STEPS = [math.nan, math.inf, -1, -1e-9, 10**30, timedelta(microseconds=-1)]


class Listener:
    """Counts the moves of a clock."""

    def __init__(self):
        self.moves = 0

    def moved(self):
        """Count one move."""
        self.moves += 1


class TestManualClock:
    """A clock that is moved by hand."""

    def test_starts_at_zero_and_stands_still(self):
        """The clock reads its start until it is moved."""
        clock = ManualClock()
        assert [clock(), clock()] == [0, 0]

    def test_advance_takes_seconds_and_timedeltas(self):
        """advance moves by seconds, exact to the nanosecond, from any start."""
        clock = ManualClock(-250)
        clock.advance(0.25)
        assert clock() == 0
        clock.advance(timedelta(hours=1))
        clock.advance(2)
        assert clock() == 3_602_000
        clock.advance(0.0003)
        assert (clock(), clock.now_ns()) == (3_602_000, 3_602_000_300_000)

    @pytest.mark.parametrize("seconds", BAD_STEPS)
    def test_never_goes_back(self, seconds):
        """A bad step is refused and moves nothing."""
        clock = ManualClock(7)
        with pytest.raises(ValueError, match="seconds is"):
            clock.advance(seconds)
        assert clock() == 7

    def test_advance_to(self):
        """advance_to sets a reading, forwards only."""
        clock = ManualClock(5)
        clock.advance_to(5)
        clock.advance_to(9)
        with pytest.raises(ValueError, match="cannot go back"):
            clock.advance_to(8)
        assert clock() == 9

    @pytest.mark.parametrize("bad", [1.5, "1", None, True])
    def test_readings_are_whole_milliseconds(self, bad):
        """A start or reading that is no int is a TypeError."""
        with pytest.raises(TypeError, match="whole milliseconds"):
            ManualClock(bad)
        clock = ManualClock()
        with pytest.raises(TypeError, match="whole milliseconds"):
            clock.advance_to(bad)
        assert clock() == 0

    def test_calls_listeners_as_long_as_they_live(self):
        """Each move calls the listeners; the clock keeps none of them alive."""
        clock, listener = ManualClock(), Listener()
        clock.on_advance(listener.moved)
        clock.advance(1)
        clock.advance(0)
        assert listener.moves == 2
        del listener
        gc.collect()
        clock.advance(1)
        another = Listener()
        clock.on_advance(another.moved)
        assert len(clock._listeners) == 1

    def test_repr_shows_the_reading(self):
        """repr shows the reading."""
        assert repr(ManualClock(12)) == "<ManualClock 12 ms>"


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_a_copy_of_the_default_clock_is_itself(again):
    """Timers know it by identity."""
    assert again(monotonic_ms) is monotonic_ms
