"""TimerTask: construction, states, cancel."""

import functools
import math
from datetime import timedelta

import pytest

from timingwheel import TimerTask
from timingwheel.task import lazy_kind


class Subclass(TimerTask):
    """A task that overrides run, as in Kafka."""

    def __init__(self, delay):
        super().__init__(delay)
        self.ran = 0

    def run(self):
        """Count a run."""
        self.ran += 1


class TestConstruction:
    """What a task may be made of."""

    def test_keeps_its_delay_in_milliseconds(self):
        """The delay is whole milliseconds, rounded up; the deadline comes with the add."""
        task = TimerTask(timedelta(microseconds=1500), print)
        assert (task.delay_ms, task.deadline_ms) == (2, 0)

    @pytest.mark.parametrize("delay", [-1, math.nan, math.inf, -0.001, timedelta(days=-1)])
    def test_bad_delay(self, delay):
        """A delay that is no length of time is a ValueError."""
        with pytest.raises(ValueError, match=r"delay is|object expected"):
            TimerTask(delay, print)

    @pytest.mark.parametrize("delay", ["1", None, print])
    def test_delay_of_a_wrong_type(self, delay):
        """A delay that is no number is a TypeError."""
        with pytest.raises(TypeError, match=r"delay is|object expected"):
            TimerTask(delay, print)

    @pytest.mark.parametrize("callback", [None, 5, "print"])
    def test_nothing_to_run(self, callback):
        """A bare task needs a callable."""
        with pytest.raises(TypeError, match=r"callback is|object expected"):
            TimerTask(1, callback)

    def test_subclass_needs_no_callback(self):
        """A subclass that overrides run has something to run."""
        assert Subclass(1).delay_ms == 1000

    def test_each_class_is_asked_for_its_run(self):
        """A class without a run of its own is refused, after any that was accepted."""

        class Idle(TimerTask):
            pass

        class Doubly(Subclass):
            pass

        for _ in range(2):
            for kind in (Subclass, Doubly, Doubly, Subclass):
                kind(1)
                with pytest.raises(TypeError, match="callback is None"):
                    Idle(1)
                with pytest.raises(TypeError, match="callback is None"):
                    TimerTask(1)

    def test_run_calls_back_with_arguments(self):
        """The callback gets the given arguments."""
        seen = []
        TimerTask(1, lambda *args: seen.append(args), 1, "two").run()
        assert seen == [(1, "two")]


class TestStates:
    """cancelled() and done() over a task's life."""

    def test_new(self):
        """A task that was never added is neither done nor cancelled, nor can it be cancelled."""
        task = TimerTask(1, print)
        assert (task.cancel(), task.cancelled(), task.done()) == (False, False, False)
        assert "new" in repr(task)

    def test_pending(self, timer, clock):
        """A pending task knows its deadline, counted from the add."""
        clock.advance(5)
        task = timer.schedule(1.5, print)
        assert task.deadline_ms == 6500
        assert (task.cancelled(), task.done()) == (False, False)
        assert "due at 6500 ms" in repr(task)

    def test_cancelled(self, timer, clock):
        """cancel() is True once; then the task is cancelled and done, and never runs."""
        ran = []
        task = timer.schedule(1, ran.append, 1)
        assert (task.cancel(), task.cancel()) == (True, False)
        assert (task.cancelled(), task.done()) == (True, True)
        assert "cancelled" in repr(task)
        clock.advance(10)
        assert timer.advance_clock() is False
        assert (ran, len(timer)) == ([], 0)

    def test_running_and_done(self, timer, clock):
        """A running task is not done and cannot be cancelled; then it is done."""
        seen = []
        task = timer.schedule(
            1, lambda: seen.append((task.cancel(), task.cancelled(), task.done(), repr(task)))
        )
        clock.advance(1)
        timer.advance_clock()
        assert seen[0][:3] == (False, False, False)
        assert "running" in seen[0][3]
        assert (task.cancel(), task.cancelled(), task.done()) == (False, False, True)
        assert "done" in repr(task)

    def test_added_again(self, timer, clock):
        """A cancelled or finished task may be added again, and is pending then."""
        task = Subclass(1)
        timer.add(task)
        task.cancel()
        timer.add(task)
        assert (task.cancelled(), task.done(), len(timer)) == (False, False, 1)
        clock.advance(1)
        timer.advance_clock()
        timer.add(task)
        assert not task.done()
        clock.advance(1)
        timer.advance_clock()
        assert (task.ran, task.done()) == (2, True)


@pytest.mark.parametrize("delay_ms", [-5, True, 0.5, float("nan"), "5", None, 2**62], ids=repr)
def test_a_bad_delay_is_refused_where_it_is_set(delay_ms):
    """And not by the next `add`."""
    task = TimerTask(1, print)
    with pytest.raises((TypeError, ValueError)):
        task.delay_ms = delay_ms
    assert task.delay_ms == 1000
    task.delay_ms = 0
    assert task.delay_ms == 0


async def coroutine():
    """Do nothing."""


async def async_generator():
    """Yield once."""
    yield


def generator():
    """Yield once."""
    yield


class Lazy:
    """An object whose call returns a coroutine."""

    __call__ = coroutine


@pytest.mark.parametrize(
    ("callback", "kind"),
    [
        (coroutine, "a coroutine function"),
        (async_generator, "a generator function"),
        (generator, "a generator function"),
        (Lazy(), "a coroutine function"),
        (Lazy, ""),
        (print, ""),
        (math.floor, ""),
        (functools.partial, ""),
        (Subclass(1).run, ""),
    ],
)
def test_the_kind_of_a_callback(callback, kind):
    """By its own code, or that of its call; a builtin has none."""
    for each in (callback, staticmethod(callback), functools.partial(staticmethod(callback))):
        assert lazy_kind(each) == kind
