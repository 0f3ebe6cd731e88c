"""Statistics of a timer."""

import dataclasses
import threading

import pytest

from tests.testing.manual_timer import make
from timingwheel.clocks.duration import NS_PER_MS
from timingwheel.stats import LatenessHistogram, WheelLevel


class TestStats:
    """stats() is a frozen dataclass."""

    def test_figures(self, timer, clock):
        """Each task is counted in the state that it is in."""
        tasks = [timer.schedule(d, int) for d in (0.001, 0.002, 0.025, 0.5)]
        tasks[1].cancel()
        clock.advance(0.026)
        timer.advance_clock()
        stats = timer.stats()
        assert (stats.name, stats.pending, stats.fired, stats.cancelled) == ("timer", 1, 2, 1)
        assert (stats.executor_backlog, stats.cascades) == (0, 1)
        assert stats.buckets_occupied == (0, 0, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            stats.pending = 0

    def test_callbacks_run_under_no_lock_of_ours(self):
        """While a callback runs, another thread can use every method."""
        timer, clock = make()
        pending = [timer.schedule(100, int), timer.schedule(100, int)]
        results = []

        def use():
            timer.schedule(50, int)
            timer.add(pending[1])
            results.append((pending[0].cancel(), len(timer), timer.stats().pending))
            timer.delay_to_next()
            clock.advance(0.001)
            timer.advance_clock()
            timer._check()

        def callback():
            thread = threading.Thread(target=use, daemon=True)
            thread.start()
            thread.join(30)
            results.append(thread.is_alive())

        timer.schedule(1, callback)
        clock.advance(1)
        timer.advance_clock()
        timer.schedule(0, callback)
        assert results == [(True, 2, 2), False, (False, 3, 3), False]
        timer.close()


class TestLateness:
    """The histogram of how late tasks started."""

    def test_each_count_is_of_those_up_to_its_bound(self):
        """A bound counts what is exactly as late; the last count is for all that is later."""
        histogram = LatenessHistogram()
        for late_ms, count in ((0, 3), (1, 2), (1.5, 1), (6000, 4)):
            histogram.observe(round(late_ms * NS_PER_MS), count)
        found = histogram.read()
        by_bound = dict(zip(found.bounds_ms, found.counts, strict=False))
        assert (by_bound[0], by_bound[1], by_bound[2], found.counts[-1]) == (3, 2, 1, 4)
        assert sum(found.counts) == 10
        assert found.sum_ms == pytest.approx(2 + 1.5 + 24_000)

    def test_what_is_early_is_not_late(self):
        """A clock that went back makes no negative sum."""
        histogram = LatenessHistogram()
        histogram.observe(-NS_PER_MS, 1)
        assert (histogram.read().counts[0], histogram.read().sum_ms) == (1, 0)


def test_a_level_knows_its_tick_in_milliseconds():
    """Its slots are counted in nanoseconds."""
    assert WheelLevel(tick_ns=250_000, slots=(0, 1), hand=0).tick_ms == 0.25
