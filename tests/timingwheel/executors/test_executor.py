"""Executors: in which thread tasks run, what they cost, and what happens when they fail."""

import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.executors import executor as executor_module


class Recorder:
    """An on_error callback that records the errors."""

    def __init__(self):
        self.errors = []

    def __call__(self, error, task):
        self.errors.append(error)


def timer_on(executor, **options):
    """Return a timer on a manual clock."""
    return Timer(clock=ManualClock(), executor=executor, **options)


def fire(timer, seconds=1):
    """Move the clock and run what is due."""
    timer._clock_reader.clock.advance(seconds)
    return timer.advance_clock()


class TestChoice:
    """What may be passed as executor."""

    @pytest.mark.parametrize("bad", ["pool", 5, object(), ThreadPoolExecutor])
    def test_not_an_executor(self, bad):
        """An object that is no executor is a TypeError when the timer is made."""
        with pytest.raises(TypeError, match="executor is"):
            Timer(executor=bad)

    def test_process_pool(self):
        """A process pool is refused: tasks in another process could not be cancelled."""
        with ProcessPoolExecutor(1) as pool, pytest.raises(TypeError, match="in this process"):
            Timer(executor=pool)

    def test_interpreter_pool(self, monkeypatch):
        """The pool of Python 3.14 whose tasks run in other interpreters is refused, too."""
        name = "concurrent.futures.interpreter"
        kind = type("InterpreterPoolExecutor", (ThreadPoolExecutor,), {})
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(InterpreterPoolExecutor=kind))
        with kind(1) as pool, pytest.raises(TypeError, match="this process and interpreter"):
            Timer(executor=pool)


class TestInline:
    """InlineExecutor."""

    def test_runs_in_the_thread_that_advances_the_clock(self, timer, clock):
        """Tasks run in advance_clock, in the thread that calls it, and not before."""
        where = []
        timer.schedule(1, lambda: where.append(threading.current_thread()))
        clock.advance(1)
        assert where == []
        timer.advance_clock()
        assert where == [threading.current_thread()]

    def test_a_finalizer_in_the_first_call_of_a_thread(self, monkeypatch):
        """It may add a task that is due, while the thread has no queue yet."""

        class Queue(executor_module._InlineQueue):
            def __init__(self):
                super().__init__()
                if not made:
                    made.append(self)
                    timer.schedule(0, ran.append, "finalizer")

        monkeypatch.setattr(executor_module, "_InlineQueue", Queue)
        made, ran, timer = [], [], Timer(clock=ManualClock(), executor=InlineExecutor())
        timer.schedule(0, ran.append, "thread")
        assert ran == ["finalizer", "thread"]

    def test_adding_does_not_run_tasks_of_other_threads(self, clock):
        """A thread that adds a task may hold locks, so it runs no callback but its own."""
        timer, order = timer_on(InlineExecutor()), []
        timer.schedule(1, order.append, "due")
        timer._clock_reader.clock.advance(1)
        # Another thread has detached it, and not delivered it yet.
        timer._wheel_state.drain_batch(1000)
        timer.schedule(5, order.append, "later")
        timer.schedule(0, order.append, "now")
        assert order == ["now"]
        timer.advance_clock()
        assert order == ["now", "due"]
        timer.close()

    def test_a_task_that_adds_itself_does_not_recurse(self, timer):
        """A task with delay 0 that is added inside a task runs after it, however often."""
        left = [5000]

        def again():
            left[0] -= 1
            if left[0]:
                timer.schedule(0, again)

        timer.schedule(0, again)
        assert left == [0]

    def test_what_a_task_adds_runs_after_it(self, timer):
        """Tasks that are added inside a task run in the order of adding."""
        order = []

        def outer():
            timer.schedule(0, order.append, "inner 1")
            timer.schedule(0, order.append, "inner 2")
            order.append("outer")

        timer.schedule(0, outer)
        assert order == ["outer", "inner 1", "inner 2"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_ctrl_c_in_a_task_loses_no_other(self, timer, clock, error):
        """It ends the drain early; the next drain runs the rest, and what the task had added."""
        order = []

        def stop():
            timer.schedule(0, order.append, "added")
            timer.advance_clock()
            raise error

        for delay, name in ((1, "a"), (1, "b"), (2, "c")):
            timer.schedule(delay, order.append, name)
            if name == "a":
                timer.schedule(1, stop)
        clock.advance(2)
        with pytest.raises(error):
            timer.advance_clock()
        assert order == ["a"]
        timer.advance_clock()
        assert sorted(order) == ["a", "added", "b", "c"]

    def test_another_thread_continues_after_ctrl_c(self):
        """Tasks that an interrupted task added may run in any thread."""
        timer, order = timer_on(InlineExecutor()), []

        def stop():
            timer.schedule(0, order.append, "added")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            timer.schedule(0, stop)
        thread = threading.Thread(target=timer.close)
        thread.start()
        thread.join()
        assert order == ["added"]

    def test_in_other_threads_even_system_exit_is_reported(self):
        """SystemExit outside the main thread is an error of the task."""
        told = Recorder()
        timer, ran = timer_on(InlineExecutor(), on_error=told), []
        timer.schedule(1, exit)
        timer.schedule(1, ran.append, 1)
        thread = threading.Thread(target=fire, args=(timer,))
        thread.start()
        thread.join()
        assert [type(e) for e in told.errors] == [SystemExit]
        assert ran == [1]
        timer.close()

    def test_shared_by_timers(self):
        """One instance serves several timers, also inside each other's tasks."""
        executor, order = InlineExecutor(), []
        one, two = timer_on(executor), timer_on(executor)

        def both():
            two.schedule(0, order.append, "two")
            order.append("one")

        one.schedule(0, both)
        assert order == ["one", "two"]
        one.close()
        two.close()
