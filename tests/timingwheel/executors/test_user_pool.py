"""PoolExecutor: jobs in a user's pool, and what happens if the pool refuses or drops them."""

import concurrent.futures
import contextlib
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.testing.eventually import eventually
from tests.timingwheel.executors.test_executor import Recorder, fire, timer_on
from timingwheel import InlineExecutor, Timer


class CountingPool(ThreadPoolExecutor):
    """Counts jobs."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.jobs = 0

    def submit(self, *args, **options):
        """Submit and count."""
        self.jobs += 1
        return super().submit(*args, **options)


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
            assert pool.jobs == 11 + 16
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
            timer, closed = timer_on(pool), threading.Semaphore(0)
            together = threading.Barrier(callers)

            def close():
                together.wait(30)
                timer.close()
                closed.release()

            for delay in range(1, callers + 1):
                timer.schedule(delay, close)
            fire(timer, 10)
            assert all(closed.acquire(timeout=30) for _ in range(callers))

    def test_shut_down_pool(self):
        """A thread of the timer's own runs the tasks; on_error is called for each; it goes on."""
        pool, told, ran = ThreadPoolExecutor(1), Recorder(), []
        pool.shutdown()
        timer = timer_on(pool, name="tea", on_error=told)
        where = lambda: ran.append(threading.current_thread().name)  # noqa: E731
        tasks = [timer.schedule(1, where) for _ in range(3)]
        cancelled = timer.schedule(1, where)
        assert cancelled.cancel()
        assert fire(timer)
        timer.close()
        assert [type(e) for e in told.errors] == [RuntimeError] * 3
        assert ran == ["tea-executor"] * 3
        assert all(task.done() and not task.cancelled() for task in tasks)
        assert timer.stats().executor_backlog == 0
        assert not [t for t in threading.enumerate() if t.name.startswith("tea")]

    def test_shut_down_pool_and_no_thread_left(self, monkeypatch):
        """The thread that moves the clock runs the tasks."""

        def refuse(_):
            raise RuntimeError("can't start new thread")

        pool, told, ran = ThreadPoolExecutor(1), Recorder(), []
        pool.shutdown()
        timer = timer_on(pool, on_error=told)
        timer.schedule(1, lambda: ran.append(threading.current_thread()))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert fire(timer)
        timer.close()
        assert ran == [threading.current_thread()]
        assert [type(e) for e in told.errors] == [RuntimeError]

    def test_refusals_are_logged_once_a_bucket(self, caplog):
        """Without on_error, a shut down pool does not fill the log."""
        pool, ran = ThreadPoolExecutor(1), []
        pool.shutdown()
        timer = timer_on(pool)
        for _ in range(300):
            timer.schedule(1, ran.append, 1)
        fire(timer)
        timer.close()
        assert len(ran) == 300
        (record,) = caplog.records
        assert "refused 300 tasks" in record.getMessage()

    def test_refusals_at_the_exit_are_not_reported(self):
        """The interpreter shuts down all pools first; what comes due then still runs."""
        program = """
            import threading
            from concurrent.futures import ThreadPoolExecutor
            from timingwheel import Timer

            def end():
                threading.main_thread().join()
                for number in range(3):
                    ran = threading.Event()
                    timer.schedule(0, ran.set)
                    print(number, ran.wait(60))

            timer = Timer(executor=ThreadPoolExecutor(1))
            timer.start()
            threading.Thread(target=end).start()
        """
        command = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
        assert (done.stdout, done.stderr) == ("0 True\n1 True\n2 True\n", "")

    @pytest.mark.parametrize("told", [None, Recorder()], ids=["logged", "on_error"])
    def test_a_bucket_that_two_threads_dispatch_is_refused_once(self, caplog, told):
        """The adding thread and the reaper may meet: the program hears of one refusal."""

        class Full(concurrent.futures.Executor):
            other = None

            def submit(self, fn, /, *args, **kwargs):
                if self.other is None:
                    self.other = threading.Thread(target=timer.advance_clock)
                    self.other.start()
                    self.other.join(30)
                raise RuntimeError("full")

        ran = []
        timer = timer_on(Full(), on_error=told)
        timer.schedule(0, ran.append, 1)
        timer.close()
        assert ran == [1]
        assert len(caplog.records if told is None else told.errors) == 1

    def test_later_refusals_wake_the_thread(self):
        """The thread of the first one sleeps by then."""
        pool, ran = ThreadPoolExecutor(1), []
        pool.shutdown()
        timer = timer_on(pool, on_error=Recorder())
        for number in range(3):
            timer.schedule(1, ran.append, number)
            fire(timer)
            eventually(lambda count=number + 1: len(ran) == count)
        timer.close()
        assert ran == [0, 1, 2]

    def test_a_refused_task_can_be_cancelled(self):
        """Until it starts, as any other."""
        pool, told, go = ThreadPoolExecutor(1), Recorder(), threading.Event()
        pool.shutdown()
        timer = timer_on(pool, on_error=told)
        timer.schedule(1, go.wait, 60)
        behind = timer.schedule(1, print)
        fire(timer)
        # The first may not have started either: then a slow task holds up nothing, and both run.
        cancelled = behind.cancel()
        go.set()
        timer.close()
        assert behind.cancelled() == cancelled
        assert behind.done()
        assert len(told.errors) == 2

    @pytest.mark.parametrize("error", [ValueError, IndexError, OSError])
    def test_a_pool_that_refuses_in_its_own_way(self, error):
        """Whatever submit raises is reported once for each task, and the task runs."""

        class Full(concurrent.futures.Executor):
            def submit(self, fn, /, *args, **kwargs):
                raise error("full")

        told, ran = Recorder(), []
        timer = timer_on(Full(), on_error=told)
        timer.schedule(1, ran.append, 1)
        timer.schedule(0, ran.append, 0)
        fire(timer)
        timer.close()
        assert [type(e) for e in told.errors] == [error] * 2
        assert ran == [0, 1]

    @pytest.mark.parametrize("runs", [False, True])
    def test_a_pool_whose_submit_returns_nothing(self, runs):
        """on_error is told of each task that did not run in `submit`, and runs; close returns."""

        class Forgetful(concurrent.futures.Executor):
            def submit(self, fn, /, *args, **kwargs):
                if runs:
                    fn(*args, **kwargs)

        told, ran = Recorder(), []
        timer = timer_on(Forgetful(), on_error=told)
        timer.schedule(1, ran.append, 1)
        timer.schedule(0, ran.append, 0)
        fire(timer)
        timer.close()
        assert ran == [0, 1]
        assert [str(e).endswith("None; expected a Future") for e in told.errors] == [True] * (
            0 if runs else 2
        )

    def test_an_executor_of_the_users_that_raises(self):
        """A refusal after some of the tasks have run concerns the rest."""

        class Halfway:
            def execute(self, run, bucket):
                task = bucket.take()
                task.run()
                raise OSError("no more")

            def flush(self):
                pass

            def resume(self):
                pass

            def close(self, *, wait, timeout):
                pass

        told, ran = Recorder(), []
        timer = timer_on(Halfway(), on_error=told)
        for number in range(3):
            timer.schedule(1, ran.append, number)
        fire(timer)
        timer.close()
        assert ran == [0, 1, 2]
        assert [type(e) for e in told.errors] == [OSError] * 2

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
        """If the pool drops a job, on_error is told CancelledError, and the tasks run elsewhere."""
        told, go, ran = Recorder(), threading.Event(), []
        pool = ThreadPoolExecutor(1)
        timer = timer_on(pool, on_error=told)
        pool.submit(go.wait)
        tasks = [timer.schedule(1, ran.append, 1) for _ in range(3000)]
        fire(timer)
        pool.shutdown(wait=False, cancel_futures=True)
        go.set()
        timer.close()
        assert len(told.errors) == 3000
        assert all(isinstance(e, concurrent.futures.CancelledError) for e in told.errors)
        assert all(task.done() for task in tasks)
        assert len(ran) == 3000
        assert timer.stats().executor_backlog == 0
        pool.shutdown()

    def test_a_job_that_dies(self):
        """Tasks behind one whose thread was killed run elsewhere; on_error is told."""

        class Killing(ThreadPoolExecutor):
            def submit(self, fn, run, bucket):
                def die():
                    bucket.take().run()
                    raise SystemExit

                return super().submit(die)

        told, ran = Recorder(), []
        with Killing(1) as pool:
            timer = timer_on(pool, on_error=told)
            for number in range(3):
                timer.schedule(1, ran.append, number)
            fire(timer)
            timer.close()
        assert ran == [0, 1, 2]
        assert [type(e.__cause__) for e in told.errors] == [SystemExit] * 2

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


@pytest.mark.parametrize("kind", [InlineExecutor, concurrent.futures.ThreadPoolExecutor])
def test_a_class_is_no_executor(kind):
    """It has the methods of its instances, but cannot be called so."""
    with pytest.raises(TypeError, match=r"executor is <class .*; expected None"):
        Timer(executor=kind)
