"""Timer.levels(): how many tasks each slot of the wheel holds."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timingwheel import InlineExecutor, ManualClock, Timer, WheelLevel


def make(tick_ms=1, wheel_size=3, start_ms=0):
    """Return a timer and its manual clock."""
    clock = ManualClock(start_ms)
    executor = InlineExecutor()
    return Timer(clock=clock, executor=executor, tick_ms=tick_ms, wheel_size=wheel_size), clock


def test_the_worked_example():
    """The levels of the module's example, before and after a cascade."""
    timer, clock = make()
    timer.schedule(0.020, print)
    timer.schedule(0.025, print)
    assert timer.levels() == (
        WheelLevel(1_000_000, (0, 0, 0), 0),
        WheelLevel(3_000_000, (0, 0, 0), 0),
        WheelLevel(9_000_000, (0, 0, 2), 0),
    )
    clock.advance(0.018)
    timer.advance_clock()
    assert timer.levels() == (
        WheelLevel(1_000_000, (0, 0, 1), 0),
        WheelLevel(3_000_000, (0, 0, 1), 0),
        WheelLevel(9_000_000, (0, 0, 0), 2),
    )
    timer.close()


def test_the_hand_follows_the_clock():
    """The hand moves with the clock, also while nothing comes due."""
    timer, clock = make(tick_ms=10, wheel_size=4, start_ms=1005)
    timer.schedule(0.3, print)
    assert [level.hand for level in timer.levels()] == [0, 1, 2]
    clock.advance(0.055)
    assert [level.hand for level in timer.levels()] == [2, 2, 2]
    timer.close()


def test_cancelled_tasks_are_not_there():
    """A bucket without tasks is an empty slot."""
    timer, _ = make()
    timer.schedule(0.001, print).cancel()
    assert timer.levels() == (WheelLevel(1_000_000, (0, 0, 0), 0),)
    timer.close()


@given(
    tick_ms=st.sampled_from([1, 7, 100]),
    wheel_size=st.sampled_from([2, 3, 20]),
    delays=st.lists(st.floats(0.001, 500), max_size=40),
    moves=st.lists(st.floats(0, 100), max_size=5),
)
def test_it_agrees_with_the_figures(tick_ms, wheel_size, delays, moves):
    """Every pending task is in one slot, and as many slots are occupied as stats() says."""
    timer, clock = make(tick_ms, wheel_size, start_ms=12345)
    for delay in delays:
        timer.schedule(delay, int)
    for move in [0.0, *moves]:
        clock.advance(move)
        timer.advance_clock()
        levels, stats = timer.levels(), timer.stats()
        assert sum(sum(level.slots) for level in levels) == stats.pending
        occupied = tuple(sum(map(bool, level.slots)) for level in levels)
        assert occupied == stats.buckets_occupied
        assert [level.tick_ms for level in levels] == [
            tick_ms * wheel_size**n for n in range(len(levels))
        ]
    timer.close()


def test_while_others_add_and_drain():
    """Any thread may call levels() meanwhile, and sees every pending task."""
    with Timer() as timer:
        timer.schedule(1e6, int)
        stop = threading.Event()

        def churn():
            while not stop.is_set():
                tasks = [timer.schedule(0.001 * n, int) for n in range(1, 50)]
                for task in tasks[::2]:
                    task.cancel()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            seen = [sum(map(sum, (level.slots for level in timer.levels()))) for _ in range(500)]
        finally:
            stop.set()
            thread.join()
    assert all(seen)
    assert sum(map(sum, (level.slots for level in timer.levels()))) == 0


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 40)), max_size=40),
    st.integers(1, 12),
)
def test_the_first_tasks(adds, limit):
    """They are those with the earliest deadlines, whenever they were added, on every level."""
    timer, clock = make()
    pending = []
    for delay_ms, pause_ms in adds:
        pending.append(timer.schedule(delay_ms / 1000, int))
        clock.advance(pause_ms / 1000)
        timer.advance_clock()
    now_ns = clock() * 1_000_000
    pending = [task for task in pending if task.deadline_ns > now_ns]
    deadlines = sorted(task.deadline_ns for task in pending)[:limit]
    assert [task.deadline_ns for task in timer.first_tasks(limit)] == deadlines
    timer.close()


def test_first_tasks_of_many():
    """A bucket with a million would be looked at in part only; cancelled tasks are not there."""
    timer, _ = make(wheel_size=20)
    tasks = [timer.schedule(1000 + n / 1e6, print) for n in range(5000)]
    for task in tasks[:10]:
        task.cancel()
    assert timer.first_tasks(3) == tasks[10:13]
    timer.close()


@pytest.mark.parametrize("limit", [-1, True, None, 2.5, "a"])
def test_a_bad_limit_of_first_tasks(limit):
    """A typed error, also without tasks."""
    timer, _ = make()
    with pytest.raises((TypeError, ValueError), match="limit is "):
        timer.first_tasks(limit)
