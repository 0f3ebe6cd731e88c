"""TimingWheel: levels, slots and rounding, without clock or tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timingwheel.bucket import TimerCounters
from timingwheel.rwlock import ReadWriteLock
from timingwheel.wheel import DelayQueue, TimingWheel
from timingwheel.wheel_state import WheelState

shapes = st.tuples(st.sampled_from([1, 10, 100]), st.sampled_from([2, 3, 20, 512]))
times = st.integers(min_value=-(10**13), max_value=10**13)


def make(tick_ns, size, start_ns):
    """Return a lowest level, with a queue of its own."""
    return TimingWheel(tick_ns, size, start_ns, DelayQueue(ReadWriteLock(), TimerCounters()))


class TestDue:
    """A deadline is rounded up to a tick."""

    @pytest.mark.parametrize(
        ("tick", "deadline", "due"),
        [
            (1, 7, 7),
            (100, 1, 100),
            (100, 100, 100),
            (100, 101, 200),
            (100, -1, 0),
            (100, -150, -100),
        ],
    )
    def test_examples(self, tick, deadline, due):
        """A deadline is rounded up, also below zero."""
        assert make(tick, 20, 0).due_ns(deadline) == due

    @given(shapes, times)
    def test_less_than_a_tick_late(self, shape, deadline):
        """A due time is not before the deadline, and less than a tick after it."""
        due = make(*shape, 0).due_ns(deadline)
        assert deadline <= due < deadline + shape[0]
        assert due % shape[0] == 0


class TestLevels:
    """Which level takes a task."""

    def test_kafkas_example(self):
        """TimingWheelTest: start 1000, tick 10, size 5; the clock moves by whole ticks."""
        wheel = make(10, 5, 1000)
        wheel.advance(1005)
        assert wheel.now_ns == 1000
        wheel.advance(1010)
        assert wheel.now_ns == 1010
        assert wheel.overflow is None
        overflow = wheel.level_for(1060)
        assert overflow is wheel.overflow
        assert wheel.level_for(1065) is overflow
        wheel.advance(1060)
        assert (wheel.now_ns, overflow.now_ns) == (1060, 1050)

    def test_worked_example(self):
        """The example of the module: tick 1, size 3, clock at 0."""
        wheel = make(1, 3, 0)
        levels = [wheel.level_for(due).level for due in (1, 2, 3, 8, 9, 26, 27)]
        assert levels == [0, 0, 1, 1, 2, 2, 3]
        assert [w.tick_ns for w in wheel.levels()] == [1, 3, 9, 27]

    def test_level_k_has_tick_times_size_to_the_k(self):
        """Levels are made on demand; the tick of each is the span of the one below."""
        wheel = make(100, 20, 0)
        wheel.level_for(100 * 20**4)
        assert [w.tick_ns for w in wheel.levels()] == [100 * 20**k for k in range(5)]

    @pytest.mark.parametrize("size", [2, 3, 512])
    def test_the_top_level_ends_with_time(self, size):
        """Its limit is the last number of 64 bits, as compiled code has them."""
        wheel = make(1, size, 10)
        wheel.level_for(2**63 - 2)
        *lower, top = [level.limit_ns for level in wheel.levels()]
        assert max(lower) < top == 2**63 - 1

    def test_an_interrupted_advance_goes_on(self):
        """A lower level that stayed behind catches up with the next call."""
        wheel = make(1, 3, 0)
        wheel.level_for(30)
        wheel.overflow.advance(19)
        wheel._check()
        wheel.advance(19)
        assert [w.now_ns for w in wheel.levels()] == [19, 18, 18, 0]

    @given(shapes, times, st.lists(st.integers(0, 10**7), max_size=5), st.integers(1, 10**9))
    def test_the_slot_of_a_due_time_lies_ahead(self, shape, start, steps, delay):
        """Wherever the clock is, a task's bucket starts after now and not after its due time."""
        state = WheelState(*shape, start)
        wheel = state.wheel
        for step in steps:
            wheel.advance(wheel.now_ns + step)
            wheel._check()
        due = wheel.due_ns(wheel.now_ns + delay)
        bucket = state.wheel.bucket_for(due)
        level = wheel.levels()[bucket.level]
        assert wheel.now_ns < bucket.expiration_ns <= due < bucket.expiration_ns + level.tick_ns
        assert bucket.level == 0 or due >= wheel.levels()[bucket.level - 1].limit_ns
        state._check()

    def test_detach_frees_only_its_own_slot(self):
        """Detaching a bucket that is in no slot leaves the bucket in its former slot alone."""
        state = WheelState(1, 20, 0)
        first = state.wheel.bucket_for(5)
        state.wheel.detach(first)
        second = state.wheel.bucket_for(5)
        state.wheel.detach(first)
        assert state.wheel.bucket_for(5) is second
        state.wheel.detach(second)
        assert state.wheel.slots == [None] * 20

    def test_detach_forgets_what_was_overdue(self):
        """A bucket of overdue tasks is kept until it is detached; another one stays."""
        state = WheelState(1, 20, 0)
        for deadline_ns in (5, 6):
            state.wheel._overdue_bucket(deadline_ns)
        gone, kept = state.wheel._overdue.values()
        state.wheel.detach(gone)
        state.wheel.detach(gone)
        assert state.wheel._overdue == {6: kept}

    def test_repr(self):
        """repr shows level, use and time."""
        assert repr(make(10, 5, 1003)) == ("<TimingWheel level 0, 0 of 5 slots of 10 ns, now 1000>")


@pytest.mark.parametrize("gone", range(3))
def test_a_removal_keeps_the_order_of_the_queue(gone):
    """Without a sort of all buckets at the next look."""
    queue = DelayQueue(ReadWriteLock(), TimerCounters())
    buckets = [queue.new_bucket(0, expiration_ns) for expiration_ns in (5, 7, 9)]
    queue.remove(buckets.pop(gone))
    assert not queue._dirty
    assert queue.first() is buckets[0]
    assert queue.snapshot() == buckets


@pytest.mark.parametrize(("tick_ns", "reach_ns"), [(2**60, 2**62), (2**61, 2**63 - 1)])
def test_no_level_reaches_beyond_the_end_of_time(tick_ns, reach_ns):
    """The end of time is the last nanosecond of 64 bits."""
    wheel = make(tick_ns, 4, 0)
    assert (wheel.interval_ns, wheel.limit_ns) == (reach_ns, reach_ns)
