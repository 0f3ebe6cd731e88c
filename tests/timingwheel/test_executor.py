"""Executors: in which thread tasks run, what they cost, and what happens when they fail."""

import concurrent.futures
import contextlib
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.executor import MAX_JOBS, WorkerExecutor


class Recorder:
    """An on_error callback that records the errors."""

    def __init__(self):
        self.errors = []

    def __call__(self, error, task):
        self.errors.append(error)


class Box:
    """Stands for a bucket."""

    def __init__(self, name):
        self.name = name


def timer_on(executor, **options):
    """Return a timer on a manual clock."""
    return Timer(clock=ManualClock(), executor=executor, **options)


def fire(timer, seconds=1):
    """Move the clock and run what is due."""
    timer._clock_reader.clock.advance(seconds)
    return timer.advance_clock()


class CountingPool(ThreadPoolExecutor):
    """Counts jobs."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.jobs = 0

    def submit(self, *args, **options):
        """Submit and count."""
        self.jobs += 1
        return super().submit(*args, **options)


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


class TestWorker:
    """executor=None: one thread of its own."""

    def test_one_named_thread_made_when_needed(self):
        """The thread starts with the first due task, has the timer's name, and ends with close."""
        timer, seen = timer_on(None, name="tea"), []
        assert not any(t.name == "tea-executor" for t in threading.enumerate())
        for _ in range(3):
            timer.schedule(1, lambda: seen.append(threading.current_thread()))
            fire(timer)
        timer.close()
        assert len(seen) == 3
        assert {(t.name, t.daemon) for t in seen} == {("tea-executor", True)}
        assert not any(t.name == "tea-executor" for t in threading.enumerate())

    @pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
    @pytest.mark.parametrize("on_error_raises", [None, ValueError, SystemExit])
    def test_nothing_stops_the_worker(self, error, on_error_raises):
        """Whatever a task and on_error raise, the next task runs."""
        told, ran = [], []

        def fail():
            raise error

        def on_error(exc, task):
            told.append(type(exc))
            if on_error_raises:
                raise on_error_raises

        timer = timer_on(None, on_error=on_error)
        for _ in range(2):
            timer.schedule(1, fail)
            timer.schedule(1, ran.append, 1)
            fire(timer)
        timer.close()
        assert (told, ran) == ([error] * 2, [1] * 2)

    def test_after_close_the_caller_runs_what_was_due(self):
        """A bucket that is dispatched after close runs in the caller's thread."""
        worker, ran = WorkerExecutor("w"), []
        worker.close(wait=True, timeout=None)
        worker.execute(ran.append, "bucket")
        assert ran == ["bucket"]
        assert not any(t.name == "w" for t in threading.enumerate())

    def test_interrupted_start_leaves_one_worker(self, monkeypatch):
        """If start is interrupted after the thread began, that thread ends and a new one works."""
        worker, ran, start = WorkerExecutor("w"), [], threading.Thread.start

        def interrupted(thread):
            start(thread)
            raise KeyboardInterrupt

        monkeypatch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.execute(ran.append, "lost? no: the timer keeps it")
        monkeypatch.undo()
        worker.execute(ran.append, "bucket")
        worker.close(wait=True, timeout=None)
        assert ran == ["bucket"]

    def test_a_finalizer_that_adds_while_the_worker_starts(self, monkeypatch):
        """It neither deadlocks nor leaves a second worker running."""
        worker, ran, start = WorkerExecutor("w"), [], threading.Thread.start

        def start_with_finalizer(thread):
            monkeypatch.undo()
            worker.execute(ran.append, "finalizer's")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_with_finalizer)
        worker.execute(ran.append, "own")
        worker.close(wait=True, timeout=None)
        assert sorted(ran) == ["finalizer's", "own"]

    def test_without_a_thread_tasks_are_reported(self, monkeypatch):
        """If the system has no thread left, on_error is told so for each due task."""
        told = Recorder()
        timer = timer_on(None, on_error=told)
        timer.schedule(1, print)

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            fire(timer)
        assert [str(e) for e in told.errors] == ["can't start new thread"]
        timer.close()

    def test_a_clock_that_fails_in_the_worker(self):
        """The tasks run; only their lateness is not known."""
        readings, ran = [0, 0], threading.Event()

        def clock():
            if threading.current_thread() is not threading.main_thread():
                raise OSError("no clock")
            return readings[0]

        timer = Timer(clock=clock)
        timer.schedule(0.001, ran.set)
        readings[0] = 1
        timer.advance_clock()
        assert ran.wait(30)
        timer.close()


class TestPool:
    """Any concurrent.futures.Executor."""

    def test_one_job_a_thousand_tasks(self):
        """A small bucket is one job; a large one is shared by few jobs, not one a task."""
        with CountingPool(2) as pool:
            timer, ran = timer_on(pool), []
            for _ in range(10_000):
                timer.schedule(1.001, ran.append, 1)
            fire(timer, 1.001)
            assert pool.jobs == 10
            timer.schedule(1, ran.append, 1)
            fire(timer)
            assert pool.jobs == 11
            for _ in range(40_000):
                timer.schedule(1.001, ran.append, 1)
            fire(timer, 1.001)
            assert pool.jobs == 11 + MAX_JOBS
            timer.close()
            assert len(ran) == 50_001

    def test_close_waits_for_jobs_and_leaves_the_pool(self):
        """close waits for the timer's jobs and does not shut the pool down."""
        with ThreadPoolExecutor(1) as pool:
            timer, ran = timer_on(pool), []
            timer.schedule(1, ran.append, 1)
            fire(timer)
            timer.close()
            assert ran == [1]
            assert pool.submit(int).result() == 0

    @pytest.mark.parametrize("callers", [1, 2])
    def test_close_from_jobs_does_not_wait_for_itself(self, callers):
        """A job that closes the timer does not wait for its own job, nor two for each other."""
        with ThreadPoolExecutor(callers) as pool:
            timer, closed = timer_on(pool), []
            together = threading.Barrier(callers)

            def close():
                together.wait(30)
                timer.close()
                closed.append(1)

            for delay in range(1, callers + 1):
                timer.schedule(delay, close)
            fire(timer, 10)
            timer.close(timeout=30)
        assert len(closed) == callers

    def test_shut_down_pool(self):
        """on_error is called for each task; the timer goes on."""
        pool, told = ThreadPoolExecutor(1), Recorder()
        pool.shutdown()
        timer = timer_on(pool, on_error=told)
        tasks = [timer.schedule(1, print) for _ in range(3)]
        assert fire(timer)
        assert [type(e) for e in told.errors] == [RuntimeError] * 3
        assert all(task.done() for task in tasks)
        timer.close()

    @pytest.mark.parametrize("error", [ValueError, IndexError, OSError])
    def test_a_pool_that_refuses_in_its_own_way(self, error):
        """Whatever submit raises is reported once for each task."""

        class Full(concurrent.futures.Executor):
            def submit(self, fn, /, *args, **kwargs):
                raise error("full")

        told = Recorder()
        timer = timer_on(Full(), on_error=told)
        timer.schedule(1, print)
        fire(timer)
        assert [type(e) for e in told.errors] == [error]
        timer.close()

    def test_a_pool_that_accepts_one_job_of_many(self):
        """The accepted job runs the whole bucket."""

        class Grudging(ThreadPoolExecutor):
            def submit(self, *args, **kwargs):
                if self._work_queue.qsize() or self._threads:
                    raise RuntimeError("one is enough")
                return super().submit(*args, **kwargs)

        told, ran = Recorder(), []
        with Grudging(1) as pool:
            timer = timer_on(pool, on_error=told)
            for _ in range(5000):
                timer.schedule(1.001, ran.append, 1)
            fire(timer, 1.001)
            timer.close()
        assert (len(ran), told.errors) == (5000, [])

    def test_a_pool_that_drops_its_jobs(self):
        """If the pool drops a job, its tasks end with CancelledError."""
        told, go = Recorder(), threading.Event()
        pool = ThreadPoolExecutor(1)
        timer = timer_on(pool, on_error=told)
        pool.submit(go.wait)
        tasks = [timer.schedule(1, print) for _ in range(3000)]
        fire(timer)
        pool.shutdown(wait=False, cancel_futures=True)
        go.set()
        timer.close()
        assert len(told.errors) == 3000
        assert all(isinstance(e, concurrent.futures.CancelledError) for e in told.errors)
        assert all(task.done() for task in tasks)
        assert timer.stats().executor_backlog == 0
        pool.shutdown()

    def test_a_pool_that_runs_at_once(self):
        """An executor may run jobs in submit, and be interrupted there."""

        class AtOnce(concurrent.futures.Executor):
            def submit(self, fn, /, *args, **kwargs):
                future = concurrent.futures.Future()
                fn(*args, **kwargs)
                future.set_result(None)
                return future

        timer, ran = timer_on(AtOnce()), []
        timer.schedule(1, ran.append, 1)
        fire(timer)
        timer.schedule(0, timer.close)
        assert ran == [1]
        with contextlib.suppress(Exception):
            timer.close()
