"""ReplayClock: virtual time, and real time at a speed."""

import itertools
import sys
import time

import pytest

from purgatory.replay.clock import BEFORE_ANY_TRACE_MS, ReplayClock
from purgatory.trace.validation import FARTHEST_MS
from timingwheel import TimerTask


class Note(TimerTask):
    """Notes the time at which it runs."""

    def __init__(self, delay_ms, clock, notes):
        super().__init__(0)
        self.delay_ns = delay_ms  # the replay's timer counts milliseconds
        self.clock, self.notes = clock, notes

    def run(self):
        self.notes.append(self.clock.now_ms())


@pytest.fixture
def clock():
    clock = ReplayClock(None)
    yield clock
    clock.timer.close()


def test_virtual_time_jumps(clock):
    """From instant to instant, years apart; nothing expires before the clock is drained."""
    assert clock.now_ms() == BEFORE_ANY_TRACE_MS
    clock.advance_to(0)
    notes = []
    clock.timer.add(Note(10**12, clock, notes))
    clock.advance_to(10**12 - 1)
    clock.drain()
    assert notes == []
    clock.advance_to(10**12)
    assert notes == []
    clock.drain()
    assert notes == [10**12]
    assert clock.lateness_ms(0) == 0


def test_a_stopped_clock_stands_still(clock):
    """Also when it is asked to advance later."""
    clock.advance_to(5)
    clock.stop()
    clock.advance_to(6)
    assert clock.now_ms() == 5


def test_any_speed_comes_to_the_last_instant(monkeypatch):
    """At the highest speed a moment of real time is longer than a float can tell."""
    clock = ReplayClock(sys.float_info.max)
    monkeypatch.setattr(time, "monotonic", itertools.count(1.0, 60.0).__next__)
    try:
        for instant_ms in (-FARTHEST_MS, 0, FARTHEST_MS):
            clock.advance_to(instant_ms)
            assert clock.now_ms() == instant_ms
        assert clock.lateness_ms(FARTHEST_MS) > 0
    finally:
        clock.timer.close()


def test_real_time_is_never_ahead():
    """At a speed, an instant is reached when real time has reached it, or later."""
    clock = ReplayClock(1000)
    try:
        clock.advance_to(100)
        clock.advance_to(2100)
        assert clock.now_ms() == 2100
        assert clock.lateness_ms(2100) >= 0
        assert clock.lateness_ms(10**15) == 0
    finally:
        clock.timer.close()
