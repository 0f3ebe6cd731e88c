"""TimerCore: schedule, add, reschedule, the limit."""

import concurrent.futures
import itertools
import math
import threading
from datetime import timedelta

import pytest

from tests.testing.counting_waiter import CountingWaiter
from tests.testing.manual_timer import SHAPES, make
from tests.testing.recording_waiter import HANG
from timingwheel import (
    InlineExecutor,
    ManualClock,
    Timer,
    TimerClosed,
    TimerError,
    TimerFull,
    TimerTask,
)
from timingwheel.lowlevel import add_task


class TestSchedule:
    """schedule and add."""

    def test_returns_the_task_added(self, timer, clock):
        """schedule makes a task, add accepts one; both return it, pending."""
        ran = []
        task = timer.schedule(1, lambda *args: ran.append(args), 1, 2)
        assert isinstance(task, TimerTask)
        own = TimerTask(timedelta(seconds=2), ran.append, "own")
        assert timer.add(own) is own
        assert len(timer) == 2
        clock.advance(2)
        assert timer.advance_clock()
        assert ran == [(1, 2), "own"]

    @pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf, -1, -1e-9, 1e308, 10**40])
    def test_bad_delay(self, timer, delay):
        """A bad delay is a ValueError, and nothing is added."""
        with pytest.raises(ValueError, match="delay"):
            timer.schedule(delay, print)
        assert len(timer) == 0

    @pytest.mark.parametrize("delay", ["1", None, [], 1j])
    def test_delay_of_a_wrong_type(self, timer, delay):
        """A bad argument is a TypeError, and nothing is added."""
        with pytest.raises(TypeError, match="delay"):
            timer.schedule(delay, print)
        assert len(timer) == 0

    @pytest.mark.parametrize("task", [None, print, 5, object()])
    def test_add_what_is_no_task(self, timer, task):
        """An object that is no task is a TypeError."""
        with pytest.raises(TypeError, match=r"task is|TimerTask object"):
            timer.add(task)

    def test_a_task_without_its_base(self, timer):
        """Its class forgot `super().__init__()`: the error says so, and nothing is added."""

        class Forgetful(TimerTask):
            def __init__(self):
                """Call nothing."""

        for add in (timer.add, lambda task: timer.reschedule(task, 1)):
            with pytest.raises(TypeError, match=r"Forgetful.__init__ did not call super"):
                add(Forgetful())
        assert len(timer) == 0

    def test_an_error_of_a_clock_is_not_taken_for_a_bad_task(self):
        """An AttributeError from elsewhere stays as it is."""

        readings = itertools.repeat(0)

        def clock():
            if (reading := next(readings, None)) is None:
                raise AttributeError("broken")
            return reading

        with Timer(clock=clock, executor=InlineExecutor()) as timer:
            readings = iter(())
            with pytest.raises(AttributeError, match="broken"):
                timer.add(TimerTask(1, print))
            readings = itertools.repeat(0)

    def test_the_delay_counts_from_add(self, timer, clock):
        """The delay counts from the add, not from the construction."""
        ran = []
        task = TimerTask(5, ran.append, 1)
        clock.advance(3)
        timer.add(task)
        assert task.deadline_ms == 8000
        clock.advance(4.999)
        timer.advance_clock()
        assert ran == []
        clock.advance(0.001)
        timer.advance_clock()
        assert ran == [1]

    def test_delay_0_runs_at_once(self, timer):
        """A task with delay 0 runs in add, and is never pending."""
        ran = []
        task = timer.schedule(0, ran.append, 1)
        timer.add(TimerTask(0.0, ran.append, 2))
        timer.schedule(timedelta(), ran.append, 3)
        assert ran == [1, 2, 3]
        assert task.done()
        assert (len(timer), timer.delay_to_next()) == (0, None)

    def test_delay_0_with_a_worker(self):
        """A task with delay 0 runs in the worker, even if the timer is not started."""
        ran = threading.Event()
        timer = Timer()
        timer.schedule(0, ran.set)
        assert ran.wait(30)
        timer.close()

    def test_foreign_task(self, timer, clock):
        """A task that is pending in another timer is refused, and stays there."""
        other, other_clock = make()
        ran = []
        task = other.schedule(1, ran.append, 1)
        with pytest.raises(TimerError, match="another timer"):
            timer.add(task)
        zero = TimerTask(0, ran.append, 2)
        zero.delay_ms = 1000
        other.add(zero)
        zero.delay_ms = 0
        with pytest.raises(TimerError, match="another timer"):
            timer.add(zero)
        assert timer.delay_to_next() is None
        other_clock.advance(1)
        other.advance_clock()
        assert ran == [1, 2]
        timer.add(task)
        assert len(timer) == 1
        other.close()


class TestScheduleMany:
    """schedule_many: the same as schedule for each delay, or nothing."""

    def test_each_delay_is_a_task(self, timer, clock):
        """Tasks come back in order, and each runs once, with its arguments, when it is due."""
        ran = []
        tasks = timer.schedule_many(
            (n / 1000 for n in range(1000)), lambda what: ran.append((clock(), what)), "x"
        )
        assert ran == [(0, "x")]  # delay 0 runs at once, inline
        assert [task.delay_ms for task in tasks] == list(range(1000))
        assert [task.deadline_ms for task in tasks] == list(range(1000))
        for _ in range(1000):
            clock.advance(0.001)
            timer.advance_clock()
        assert ran == [(n, "x") for n in range(1000)]

    def test_of_none(self, timer):
        """Without delays there are no tasks."""
        assert timer.schedule_many([], print) == []

    @pytest.mark.parametrize("bad", [-1, "1", None, math.nan])
    def test_a_bad_delay_refuses_all(self, timer, bad):
        """A bad delay adds none of the tasks."""
        with pytest.raises((ValueError, TypeError)):
            timer.schedule_many([*[1.0] * 1000, bad], print)
        assert len(timer) == 0

    def test_too_many_refuse_all(self, clock):
        """If the limit is reached, all new tasks are cancelled; older ones stay."""
        timer = Timer(clock=clock, executor=InlineExecutor(), max_pending=600)
        kept = timer.schedule(1, print)
        with pytest.raises(TimerFull):
            timer.schedule_many([1.0] * 600, print)
        assert len(timer) == 1
        assert not kept.done()
        assert len(timer.schedule_many([1.0] * 599, print)) == 599
        timer.close()

    def test_closed(self, timer):
        """A closed timer raises TimerClosed, as from schedule."""
        timer.close()
        with pytest.raises(TimerClosed):
            timer.schedule_many([1.0], print)


class TestReschedule:
    """reschedule: the delay of a pending task counts anew from now."""

    @pytest.mark.parametrize(("tick", "size"), SHAPES)
    def test_later_and_earlier_on_every_level(self, tick, size):
        """Wherever it is moved, it stays one task and runs at its last deadline."""
        timer, clock = make(tick, size)
        ran = []
        task = timer.schedule(1, lambda: ran.append(clock()))
        for delay in (1.5, 60, 59.9, 0.2, 3600, 2, 1.9999):
            assert timer.reschedule(task, delay) is True
            assert task.when() == pytest.approx(clock() / 1000 + delay)
            assert (len(timer), timer.stats().fired) == (1, 0)
            timer._check()
            clock.advance(0.1)
            timer.advance_clock()
        for _ in range(40):
            clock.advance(0.05)
            timer.advance_clock()
        # The last reschedule was at 600 ms.
        assert ran == [2600]
        timer._check()
        timer.close()

    def test_the_task_stays_in_its_bucket_until_that_comes(self, timer, clock):
        """A later deadline changes no bucket; when the bucket comes, the others in it run."""
        ran = []
        tasks = [timer.schedule(0.005, ran.append, number) for number in range(4)]
        bucket = tasks[0]._tt_list
        for task in tasks[1:3]:
            assert timer.reschedule(task, 0.050)
            assert task._tt_list is bucket
        clock.advance(0.005)
        assert timer.advance_clock()
        assert (ran, len(timer)) == ([0, 3], 2)
        assert timer.delay_to_next() <= 0.045
        timer._check()
        clock.advance(0.044)
        timer.advance_clock()
        assert ran == [0, 3]
        clock.advance(0.001)
        timer.advance_clock()
        assert ran == [0, 3, 1, 2]

    def test_all_of_a_bucket_is_moved(self, timer, clock):
        """The old bucket wakes the timer, and nothing runs."""
        ran = []
        task = timer.schedule(0.005, ran.append, 1)
        timer.reschedule(task, 0.006)
        clock.advance(0.005)
        assert timer.advance_clock()
        assert (ran, len(timer), timer.delay_to_next()) == ([], 1, 0.001)
        assert task.cancel()
        assert timer.delay_to_next() is None

    def test_what_is_not_pending(self, timer, clock):
        """A new, cancelled or finished task, and one that runs: False, and nothing is done."""
        answers = []
        new, cancelled = TimerTask(1, print), timer.schedule(1, print)
        cancelled.cancel()
        finished = timer.schedule(1, lambda: answers.append(timer.reschedule(finished, 5)))
        clock.advance(1)
        timer.advance_clock()
        answers += [timer.reschedule(task, 5) for task in (new, cancelled, finished)]
        assert answers == [False] * 4
        assert (len(timer), cancelled.cancelled(), finished.done()) == (0, True, True)

    def test_after_it_came_due_and_before_it_started(self):
        """A task that waits for the executor is pending: it moves back into the wheel."""
        clock, held, go, ran = ManualClock(), threading.Event(), threading.Event(), []
        timer = Timer(clock=clock, executor=concurrent.futures.ThreadPoolExecutor(1))
        timer.schedule(1, lambda: (held.set(), go.wait(HANG)))
        task = timer.schedule(1, ran.append, 1)
        clock.advance(1)
        timer.advance_clock()
        assert held.wait(HANG)
        assert timer.reschedule(task, 1)
        assert (len(timer), timer.stats().executor_backlog) == (1, 0)
        go.set()
        clock.advance(1)
        timer.advance_clock()
        timer.close()
        timer._executor._pool.shutdown()
        assert ran == [1]

    def test_to_0_runs_at_once(self, timer):
        """A delay of 0 is due now."""
        ran = []
        task = timer.schedule(1, ran.append, 1)
        assert timer.reschedule(task, 0)
        assert (ran, len(timer)) == ([1], 0)

    def test_the_new_delay_is_kept(self, timer, clock):
        """Added again, it waits as long as it was rescheduled for."""
        task = timer.schedule(1, print)
        timer.reschedule(task, 5)
        clock.advance(1)
        timer.add(task)
        assert task.when() == 6

    @pytest.mark.parametrize(("delay", "wakes"), [(4, 1), (6, 0), (0, 0)])
    def test_an_earlier_deadline_wakes_the_timers_thread(self, timer, delay, wakes):
        """It would sleep too long; a later deadline leaves it asleep."""
        waiter = CountingWaiter()
        task = timer.schedule(5, int)
        timer.change_waiters(add=waiter)
        timer.reschedule(task, delay)
        assert waiter.wakes == wakes

    @pytest.mark.parametrize("delay", [-1, math.nan, math.inf])
    def test_bad_delays(self, timer, delay):
        """The value is named, and the task stays as it was."""
        task = timer.schedule(1, print)
        with pytest.raises(ValueError, match="delay is"):
            timer.reschedule(task, delay)
        assert (task.when(), len(timer)) == (1, 1)

    def test_foreign_and_closed(self, timer):
        """A task of another timer is a TimerError, a closed timer TimerClosed."""
        with pytest.raises(TypeError):
            timer.reschedule("task", 1)
        other, _ = make()
        task = other.schedule(1, print)
        with pytest.raises(TimerError, match="another timer"):
            timer.reschedule(task, 1)
        other.close(cancel_pending=False)
        with pytest.raises(TimerClosed):
            other.reschedule(task, 2)
        assert task.when() == 1
        task.cancel()
        other.close()


class TestLimit:
    """max_pending."""

    def test_full(self):
        """TimerFull names the limit; accepted tasks stay; a cancel makes room."""
        timer, clock = make(max_pending=3)
        ran = []
        tasks = [timer.schedule(d, ran.append, d) for d in (1, 2, 3)]
        with pytest.raises(TimerFull, match="max_pending=3"):
            timer.schedule(4, ran.append, 4)
        refused = TimerTask(4, ran.append, 4)
        with pytest.raises(TimerFull):
            timer.add(refused)
        assert (len(timer), refused.done(), refused.cancelled()) == (3, False, False)
        timer.add(tasks[0])
        tasks[1].cancel()
        timer.add(refused)
        clock.advance(1)
        timer.advance_clock()
        timer.schedule(5, ran.append, 5)
        clock.advance(10)
        timer.advance_clock()
        assert ran == [1, 3, 4, 5]
        timer.close()

    def test_due_tasks_that_have_not_started(self):
        """They are pending and count: a busy executor does not let a timer grow without bound."""
        clock, held, go, ran = ManualClock(), threading.Event(), threading.Event(), []
        timer = Timer(clock=clock, max_pending=2)
        timer.schedule(0, lambda: (held.set(), go.wait(HANG)))
        assert held.wait(HANG)
        assert len(timer) == 0  # it has started
        first, second = timer.schedule(1, ran.append, 1), timer.schedule(0, ran.append, 2)
        clock.advance(1)
        timer.advance_clock()
        stats = timer.stats()
        assert (len(timer), stats.pending, stats.executor_backlog) == (2, 2, 2)
        for delay in (0, 1):
            with pytest.raises(TimerFull):
                timer.schedule(delay, print)
        with pytest.raises(TimerFull):
            timer.schedule_many([0], print)
        timer.add(second)  # a pending task only moves
        assert first.cancel()
        timer.schedule(1, ran.append, 3)
        go.set()
        timer.close(cancel_pending=False, timeout=0)
        assert 1 not in ran

    def test_full_is_a_timer_error(self):
        """All errors have one base."""
        assert issubclass(TimerFull, TimerError)
        assert issubclass(TimerClosed, TimerError)


class TestAddTask:
    """`add_task`, which compiled code may call instead of `Timer.add`."""

    @pytest.mark.parametrize("delay", [0, 0.5, 60])
    def test_it_is_what_add_does(self, delay):
        """The task is pending as after `add`, runs once, and a closed timer refuses it."""
        clock, ran = ManualClock(), []
        timer = Timer(clock=clock, executor=InlineExecutor())
        task = TimerTask(delay, ran.append, 1)
        assert add_task(timer, task) is None
        assert len(timer) == (1 if delay else 0)
        clock.advance(delay)
        while len(timer):
            timer.advance_clock()
        assert ran == [1]
        timer.close()
        with pytest.raises(TimerClosed):
            add_task(timer, task)
