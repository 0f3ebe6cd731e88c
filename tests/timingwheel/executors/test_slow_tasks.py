"""WorkerExecutor: leader and standby, slow tasks, dead workers."""

import os
import threading
from contextlib import contextmanager

import pytest

from tests.testing.recording_waiter import RecordingWaiter
from tests.timingwheel.executors.test_executor import Recorder, fire, timer_on
from tests.timingwheel.test_timer_fork import in_child
from timingwheel import ManualClock, Timer
from timingwheel.bucket import TimerCounters
from timingwheel.executors import slow_tasks
from timingwheel.executors.slow_tasks import Worker, WorkerExecutor

HANG = 30  # seconds; a test that waits longer has failed


def workers(name):
    """Return the names of the living workers of a timer."""
    return sorted(t.name for t in threading.enumerate() if t.name.startswith(name))


def wait_until(condition):
    """Return as soon as a condition holds."""
    pause = threading.Event()
    for _ in range(HANG * 1000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError(condition)


class Slow:
    """A task that blocks until it is released."""

    def __init__(self):
        self.begun = threading.Event()
        self._go = threading.Event()

    def __call__(self):
        self.begun.set()
        assert self._go.wait(HANG)

    def release(self):
        """Let it end."""
        self._go.set()


@contextmanager
def driven(started, **options):
    """Make a timer on a manual clock, and a function that moves the clock; close the timer."""
    clock = ManualClock()
    timer = Timer("tea", clock=clock, **options)
    if started:
        timer.start()

    def advance(seconds):
        clock.advance(seconds)
        if not started:
            timer.advance_clock()

    try:
        yield timer, advance
    finally:
        timer.close()
        assert workers("tea") == []


@pytest.fixture
def never_slow(monkeypatch):
    """Take no task for slow, however busy the machine is."""
    monkeypatch.setattr(slow_tasks, "SLOW_TASK_S", HANG)


started_or_not = pytest.mark.parametrize("started", [True, False])


@pytest.mark.usefixtures("never_slow")
class TestLeader:
    """Tasks run one at a time, in the thread that advances the clock if there is one."""

    def test_the_thread_at_the_clock_runs_tasks(self):
        """A started timer runs its tasks in its reaper; the second thread only stands by."""
        seen, done = [], threading.Event()
        with Timer("tea") as timer:
            for delay in (0.001, 0.002, 0):
                timer.schedule(delay, lambda: seen.append(threading.current_thread().name))
            timer.schedule(0.003, done.set)
            assert done.wait(HANG)
        assert seen == ["tea-reaper"] * 3
        assert workers("tea") == []

    @started_or_not
    def test_one_at_a_time_in_order(self, started):
        """Quick tasks never overlap, and start in order of expiry."""
        inside, order = threading.Lock(), []

        def run(number):
            assert inside.acquire(blocking=False)
            order.append(number)
            inside.release()

        with driven(started) as (timer, advance):
            for number in range(2000):
                timer.schedule(1 + number / 1000, run, number)
            for _ in range(30):
                advance(0.1)
            wait_until(lambda: timer.stats().fired == 2000)
        assert order == list(range(2000))

    @started_or_not
    def test_what_a_task_adds_runs_after_it(self, started):
        """A task with delay 0 that a task adds does not run inside it."""
        order, done = [], threading.Event()

        def outer():
            timer.schedule(0, order.append, "inner")
            timer.advance_clock()
            order.append("outer")
            timer.schedule(0, done.set)

        with driven(started) as (timer, advance):
            timer.schedule(1, outer)
            advance(1)
            assert done.wait(HANG)
        assert order == ["outer", "inner"]

    def test_the_clock_is_led_by_a_worker_that_exists(self):
        """A timer that ran a task before it is started goes on with that thread."""
        first, second = threading.Event(), threading.Event()
        timer = Timer("tea")
        timer.schedule(0, first.set)
        assert first.wait(HANG)
        timer.start()
        timer.schedule(0.01, second.set)
        assert second.wait(HANG)
        assert timer.running
        assert "tea-reaper" not in workers("tea")
        timer.close()
        assert not timer.running
        assert workers("tea") == []

    def test_interrupted_start_leaves_no_thread(self, monkeypatch):
        """If start is interrupted once the thread has begun, that thread ends."""
        timer, start = Timer("tea"), threading.Thread.start

        def interrupted(thread):
            start(thread)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                timer.start()
        wait_until(lambda: workers("tea") == [])
        assert not timer.running
        fired = threading.Event()
        timer.start()
        timer.schedule(0.001, fired.set)
        assert fired.wait(HANG)
        timer.close()

    @started_or_not
    def test_an_exit_wakes_workers(self, started):
        """Those that sleep, at the clock or for a task, end; what comes then runs in the caller."""
        done, ran = threading.Event(), []
        with driven(started) as (timer, advance):
            timer.schedule(1, done.set)
            advance(1)
            assert done.wait(HANG)
            wait_until(lambda: workers("tea"))
            timer._executor.stop_at_exit()
            wait_until(lambda: not workers("tea"))
            timer._executor.execute(ran.append, "bucket")
            assert (ran, workers("tea")) == (["bucket"], [])

    def test_fork_in_a_task(self):
        """The child, whose only thread is a worker, ends when the task returns there."""
        children, done = [], threading.Event()
        with Timer("tea") as timer:

            def fork():
                pid = os.fork()
                if pid:
                    children.append(os.waitpid(pid, 0)[1])
                    done.set()

            timer.schedule(0.001, fork)
            assert done.wait(HANG)
            again = threading.Event()
            timer.schedule(0.001, again.set)
            assert again.wait(HANG)
        assert len(children) == 1

    def test_fork_beside_workers(self):
        """A child may drop its copy of a timer whose workers stayed in the parent."""
        slow = Slow()
        with Timer("tea") as timer:
            timer.schedule(0, slow)
            assert slow.begun.wait(HANG)
            in_child(timer.close)
            slow.release()


class TestSlowTask:
    """A task that blocks holds up no other."""

    def test_the_reaper_may_end_after_a_slow_task(self):
        """Another thread of the timer has taken its place, and advances the clock."""
        slow, others = Slow(), [threading.Event() for _ in range(2)]
        with Timer("tea") as timer:
            reaper = next(t for t in threading.enumerate() if t.name == "tea-reaper")
            timer.schedule(0.001, slow)
            assert slow.begun.wait(HANG)
            timer.schedule(0.001, others[0].set)
            assert others[0].wait(HANG)
            wait_until(lambda: len(workers("tea")) == 3)  # one stands by
            slow.release()
            reaper.join(HANG)
            assert not reaper.is_alive()
            assert timer.running
            timer.schedule(0.001, others[1].set)
            assert others[1].wait(HANG)

    @started_or_not
    def test_others_go_on(self, started):
        """Those in its bucket, those dispatched behind it, those that come due or are added."""
        slow, done = Slow(), [threading.Event() for _ in range(5)]
        with driven(started) as (timer, advance):
            timer.schedule(1, slow)
            timer.schedule(1, done[0].set)
            timer.schedule(1.5, done[1].set)
            timer.schedule(3, done[2].set)
            advance(2)
            assert slow.begun.wait(HANG)
            assert done[0].wait(HANG)
            assert done[1].wait(HANG)
            timer.schedule(0, done[3].set)
            assert done[3].wait(HANG)
            advance(1)
            assert done[2].wait(HANG)
            slow.release()
            timer.schedule(0, done[4].set)
            assert done[4].wait(HANG)

    @started_or_not
    def test_the_former_leader_runs_no_more(self, started):
        """When its slow task ends, the rest of its bucket is left to the leader."""
        slow, last, inside = Slow(), Slow(), []
        with driven(started) as (timer, advance):
            timer.schedule(1, lambda: (slow(), inside.append(threading.current_thread())))
            for _ in range(1000):
                timer.schedule(1, int)
            timer.schedule(1, last)
            for _ in range(1000):
                timer.schedule(1, int)
            advance(1)
            assert last.begun.wait(HANG)
            leader = timer._executor._leader
            slow.release()
            wait_until(lambda: timer.stats().executor_backlog == 0)
            last.release()
        assert inside
        assert leader not in inside

    @started_or_not
    def test_bounded(self, started, monkeypatch):
        """No more than MAX_WORKERS threads are started; then a task waits for one of them."""
        monkeypatch.setattr(slow_tasks, "MAX_WORKERS", 3)
        tasks, last = [Slow() for _ in range(3)], threading.Event()
        with driven(started) as (timer, advance):
            for task in tasks:
                timer.schedule(1, task)
            timer.schedule(1, last.set)
            advance(1)
            assert all(task.begun.wait(HANG) for task in tasks)
            assert len(workers("tea")) == 3
            assert not last.is_set()
            tasks[1].release()
            assert last.wait(HANG)
            for task in tasks:
                task.release()

    @started_or_not
    def test_few_workers_stay(self, started):
        """When slow tasks have ended, a leader and a standby are left."""
        tasks = [Slow() for _ in range(6)]
        with driven(started) as (timer, advance):
            for task in tasks:
                timer.schedule(1, task)
            advance(1)
            for task in tasks:
                assert task.begun.wait(HANG)
            for task in tasks:
                task.release()
            wait_until(lambda: len(workers("tea")) <= 2)
            again = threading.Event()
            timer.schedule(1, again.set)
            advance(1)
            assert again.wait(HANG)

    def test_without_a_thread_for_a_standby(self, monkeypatch):
        """Tasks run all the same."""
        start, done = threading.Thread.start, threading.Event()

        def refuse(thread):
            if "executor" in thread.name:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuse)
        with Timer("tea") as timer:
            timer.schedule(0.001, done.set)
            assert done.wait(HANG)
            assert workers("tea") == ["tea-reaper"]

    def test_an_on_error_that_blocks(self):
        """A slow on_error is part of its task."""
        slow, done = Slow(), threading.Event()
        with driven(True, on_error=lambda *_: slow()) as (timer, advance):
            timer.schedule(1, lambda: 1 / 0)
            timer.schedule(1, done.set)
            advance(1)
            assert done.wait(HANG)
            slow.release()

    @started_or_not
    def test_close_from_slow_tasks(self, started):
        """Workers that close their timer wait neither for themselves nor for each other."""
        meet, closed = threading.Barrier(2), threading.Semaphore(0)

        def close():
            meet.wait(HANG)
            timer.close()
            closed.release()

        with driven(started) as (timer, advance):
            timer.schedule(1, close)
            timer.schedule(1, close)
            advance(1)
            assert closed.acquire(timeout=HANG)
            assert closed.acquire(timeout=HANG)

    @started_or_not
    def test_close_waits_for_slow_tasks(self, started):
        """And runs what was dispatched behind them, also if a timeout leaves them behind."""
        slow, ran = Slow(), []
        with driven(started) as (timer, advance):
            timer.schedule(1, slow)
            timer.schedule(1, ran.append, 1)
            advance(1)
            assert slow.begun.wait(HANG)
            timer.close(timeout=0.5)
            assert timer.stats().executor_backlog == 0
            assert len(workers("tea")) == 1
            slow.release()
            timer.close()
            assert workers("tea") == []


@pytest.mark.usefixtures("never_slow")
class TestUnstarted:
    """Without a reaper the leader runs what `advance_clock` dispatches."""

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

    def test_a_worker_without_a_clock(self, caplog):
        """It runs what is due, and goes back to sleep without an error."""
        timer, waiter = timer_on(None, name="tea"), RecordingWaiter()
        timer._executor._waiter = waiter
        timer.schedule(1, int)
        fire(timer)
        for _ in range(2):
            waiter.next_sleep()
        timer.close()
        assert caplog.records == []

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

    @pytest.mark.parametrize(
        "end",
        [lambda worker: worker.close(wait=True, timeout=None), lambda worker: worker.after_fork()],
        ids=["close", "fork"],
    )
    def test_after_close_the_caller_runs_what_was_due(self, end):
        """A bucket that is dispatched after close, or in a child, runs in the caller's thread."""
        worker, ran = WorkerExecutor("w", TimerCounters()), []
        end(worker)
        worker.execute(ran.append, "bucket")
        assert ran == ["bucket"]
        assert not any(t.name == "w" for t in threading.enumerate())

    def test_a_child_has_a_lock_of_its_own(self):
        """A thread of the parent, which does not exist in the child, may have held the other."""
        worker = WorkerExecutor("w", TimerCounters())
        holds, go_on = threading.Event(), threading.Event()

        def hold():
            with worker._lock:
                holds.set()
                go_on.wait(HANG)

        thread = threading.Thread(target=hold)
        thread.start()
        assert holds.wait(HANG)
        worker.after_fork()
        try:
            assert worker._lock.acquire(blocking=False)
        finally:
            go_on.set()
            thread.join(HANG)

    def test_interrupted_start_leaves_one_worker(self, monkeypatch):
        """If start is interrupted after the thread began, that thread ends and a new one works."""
        worker, ran, start = WorkerExecutor("w", TimerCounters()), [], threading.Thread.start

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
        worker, ran, start = WorkerExecutor("w", TimerCounters()), [], threading.Thread.start

        def start_with_finalizer(thread):
            monkeypatch.undo()
            worker.execute(ran.append, "finalizer's")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_with_finalizer)
        worker.execute(ran.append, "own")
        worker.close(wait=True, timeout=None)
        assert sorted(ran) == ["finalizer's", "own"]

    def test_without_a_thread_tasks_run_here(self, monkeypatch):
        """If the system has no thread left, on_error is told so, and the caller runs the tasks."""
        told, ran = Recorder(), []
        timer = timer_on(None, on_error=told)
        timer.schedule(1, ran.append, 1)

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            fire(timer)
        assert [str(e) for e in told.errors] == ["can't start new thread"]
        assert ran == [1]
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


@pytest.mark.parametrize(("late_s", "grace_s"), [(0, 0), (0.5, 0), (1, 4), (2, 8), (3, 10)])
def test_a_leader_is_granted_what_its_standby_was_late(monkeypatch, late_s, grace_s):
    """Some times as much, up to a limit: the standby takes over that much later."""
    monkeypatch.setattr(slow_tasks, "SLOW_TASK_S", 1)
    monkeypatch.setattr(slow_tasks, "MAX_GRACE_S", 10)
    now = [1000]
    monkeypatch.setattr(slow_tasks, "real_seconds", lambda: now[0])
    executor = WorkerExecutor("tea", TimerCounters())
    leader, standby = threading.current_thread(), Worker(executor, "standby")
    executor._leader, executor._standby, executor._running = leader, standby, True
    assert executor._look(standby, 7) == 1
    now[0] = 1001 + late_s
    while executor._leader is leader:
        sleep_s = executor._look(standby, 7)
        now[0] += sleep_s
        assert now[0] < 1100
    assert now[0] == max(1001 + late_s, 1001 + grace_s)
