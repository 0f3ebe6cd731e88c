"""Fixtures of the timer's tests: a timer driven by hand, and a check for leaked threads."""

import threading

import pytest

from timingwheel import InlineExecutor, ManualClock, Timer


@pytest.fixture(autouse=True)
def no_thread_is_left_behind():
    """Every test ends with the threads that it began with."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread._started.wait(10)  # one that another thread is just starting cannot be joined
        thread.join(10)
        assert not thread.is_alive(), thread


@pytest.fixture
def clock():
    """A clock at 0."""
    return ManualClock()


@pytest.fixture
def timer(clock):
    """A timer on that clock which runs its tasks inline; a failing task fails the test."""
    errors = []
    timer = Timer(
        clock=clock,
        executor=InlineExecutor(),
        tick_ms=1,
        wheel_size=20,
        on_error=lambda error, task: errors.append(error),
    )
    yield timer
    timer._check()
    timer.close()
    assert errors == []
