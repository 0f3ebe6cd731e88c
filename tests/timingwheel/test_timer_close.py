"""Timer.close: every combination of options, from every thread, against concurrent use."""

import contextlib
import itertools
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed, TimerTask

EXECUTORS = ["worker", "inline", "pool"]
MATRIX = list(
    itertools.product(EXECUTORS, [True, False], [True, False], [True, False], [None, 0, 0.05])
)

LOCKS = {
    "timer": lambda timer: timer._lock.reading(),
    "turnstile": lambda timer: timer._lock._turnstile,
    "delay queue": lambda timer: timer._wheel_state.queue._lock,
    "executor": lambda timer: timer._executor._lock,
    "refused buckets": lambda timer: timer._refused._workers._lock,
    "lateness": lambda timer: timer._runner.lateness._lock,
}


class Watch(TimerTask):
    """A task that records what became of it."""

    def __init__(self, delay):
        super().__init__(delay)
        self.notes = []

    def run(self):
        """Record a run."""
        self.notes.append("ran")

    def _tt_on_close(self):
        self.notes.append("closed")


@pytest.fixture
def make():
    """Makes timers on a real clock, with a pool that ends with the test."""
    with ThreadPoolExecutor(2) as pool:
        executors = {"worker": lambda: None, "inline": InlineExecutor, "pool": lambda: pool}

        def make(executor="worker", **options):
            return Timer(executor=executors[executor](), **options)

        yield make


def settled(timer):
    """Wait until nothing is left of a closed timer but its closing threads."""
    pause = threading.Event()
    for _ in range(3000):
        names = [t.name for t in threading.enumerate() if t.name.startswith(timer.name)]
        if not names and not timer.stats().executor_backlog:
            return
        pause.wait(0.01)
    raise AssertionError((timer, names))


@pytest.mark.parametrize(("executor", "started", "wait", "cancel_pending", "timeout"), MATRIX)
def test_matrix(make, executor, started, wait, cancel_pending, timeout):
    """close returns and ends the threads; each task either ran or was cancelled."""
    timer = make(executor, name="matrix")
    if started:
        timer.start()
    tasks = [timer.add(Watch(delay)) for delay in (0, 0.001, 0.02, 0.02, 0.03)]
    if not started:
        timer.advance_clock()
    timer.close(wait=wait, cancel_pending=cancel_pending, timeout=timeout)
    if not started and not cancel_pending:
        timer.advance_clock(0.2)
        timer.close(timeout=timeout)
    settled(timer)
    with pytest.raises(TimerClosed):
        timer.schedule(1, print)
    with pytest.raises(TimerClosed):
        timer.schedule(0, print)
    timer.close()
    assert len(timer) == 0
    assert all(task.done() for task in tasks)
    for task in tasks:
        # A delay 0 task of a pool that the timeout overtook was cancelled by its runner.
        assert task.notes == (["closed"] if task.cancelled() else ["ran"]), task.notes
    if started and not cancel_pending and timeout is None:
        assert [task.notes for task in tasks] == [["ran"]] * 5
    stats = timer.stats()
    assert stats.fired + stats.cancelled == 5
    timer._check()


class TestCancelPending:
    """What close does with pending tasks."""

    def test_cancels_everything_at_once(self, make):
        """Pending tasks are cancelled, their close hook is called, and they do not run."""
        timer = make()
        timer.start()
        tasks = [timer.add(Watch(delay)) for delay in (30, 60, 3600, 10**9) for _ in range(200)]
        timer.close()
        assert all(task.cancelled() for task in tasks)
        assert all(task.notes == ["closed"] for task in tasks)
        assert timer.delay_to_next() is None

    def test_false_leaves_it_running_to_the_last(self, make):
        """Without a timeout, close waits until the last task has fired."""
        timer = make("inline")
        timer.start()
        tasks = [timer.add(Watch(delay / 100)) for delay in range(1, 12)]
        timer.close(cancel_pending=False)
        assert all(task.notes == ["ran"] for task in tasks)

    def test_false_with_timeout_cancels_the_rest(self, make):
        """Tasks that are not due within the timeout are cancelled."""
        timer = make()
        timer.start()
        near, far = timer.add(Watch(0.01)), timer.add(Watch(1000))
        timer.close(cancel_pending=False, timeout=3)  # for the near one, also if a thread stalls
        assert len(timer) == 0
        settled(timer)
        assert (near.notes, far.notes) == (["ran"], ["closed"])

    def test_false_without_a_reaper(self):
        """Without a reaper, due tasks fire, and the rest waits for advance_clock."""
        clock = ManualClock()
        timer = Timer(clock=clock, executor=InlineExecutor())
        near, far = timer.add(Watch(1)), timer.add(Watch(2))
        clock.advance(1)
        timer.close(cancel_pending=False)
        assert (near.notes, far.notes) == (["ran"], [])
        clock.advance(1)
        timer.advance_clock()
        assert far.notes == ["ran"]

    def test_false_without_a_reaper_and_without_time(self, make):
        """Without a reaper, the first advance_clock after the timeout cancels the rest."""
        timer = make("inline")
        far = timer.add(Watch(1000))
        timer.close(cancel_pending=False, timeout=0.01)
        deadline = time.monotonic() + 30
        while not timer.finished():
            assert timer.advance_clock(30) is False
            assert time.monotonic() < deadline
        assert (far.notes, len(timer)) == (["closed"], 0)

    def test_false_in_a_task_without_a_reaper(self):
        """A task may close: the thread that drives the timer cancels the rest after the timeout."""
        timer = Timer()
        timer.schedule(0.001, timer.close, True, False, 0.01)
        far = timer.add(Watch(1000))
        deadline = time.monotonic() + 30
        while not timer.finished():
            timer.advance_clock(30)
            assert time.monotonic() < deadline
        assert (far.notes, len(timer)) == (["closed"], 0)

    def test_false_with_a_manual_clock(self):
        """On a manual clock, close waits until another thread moves the clock."""
        clock = ManualClock()
        timer = Timer(clock=clock)
        timer.start()
        task = timer.add(Watch(5))
        closer = threading.Thread(target=timer.close, kwargs={"cancel_pending": False})
        closer.start()
        clock.advance(5)
        closer.join(30)
        assert not closer.is_alive()
        assert task.notes == ["ran"]

    def test_second_close_may_be_harder(self, make):
        """A second close may cancel what the first one left to fire."""
        timer = make()
        timer.start()
        task = timer.add(Watch(1000))
        timer.close(wait=False, cancel_pending=False)
        assert len(timer) == 1
        timer.close()
        assert task.notes == ["closed"]

    def test_what_a_task_does_when_closed_stops_nothing(self):
        """An error in one task's close hook goes to on_error; the other hooks are called."""
        told = []

        class Bad(Watch):
            def _tt_on_close(self):
                raise SystemExit if threading.current_thread().name != "MainThread" else OSError

        timer = Timer(on_error=lambda error, task: told.append(type(error)))
        tasks = [timer.add(kind(10)) for kind in (Watch, Bad, Watch)]
        timer.close()
        assert [task.notes for task in tasks] == [["closed"], [], ["closed"]]
        assert told == [OSError]
        timer = Timer(on_error=lambda error, task: told.append(type(error)))
        timer.start()
        tasks = [timer.add(kind(10)) for kind in (Watch, Bad, Watch)]
        timer.close(cancel_pending=False, timeout=0.01)
        settled(timer)
        assert [task.notes for task in tasks] == [["closed"], [], ["closed"]]


class TestAlwaysReturns:
    """close returns, whatever the threads do."""

    @pytest.mark.parametrize("executor", EXECUTORS)
    @pytest.mark.parametrize("started", [True, False])
    @pytest.mark.parametrize("cancel_pending", [True, False])
    def test_from_a_callback(self, make, executor, started, cancel_pending):
        """A task may close its timer: close does not wait for that task."""
        timer, closed = make(executor), threading.Event()

        def close():
            timer.close(cancel_pending=cancel_pending)
            timer.close()
            closed.set()

        if started:
            timer.start()
        timer.schedule(0.01, close)
        while not started and not closed.is_set() and len(timer):
            timer.advance_clock(1)
        assert closed.wait(30)
        timer.close()
        settled(timer)

    @pytest.mark.parametrize("executor", EXECUTORS)
    def test_from_many_threads(self, make, executor):
        """Concurrent calls of close all return."""
        timer = make(executor)
        timer.start()
        with contextlib.suppress(TimerClosed):  # on a busy machine the first close comes early
            for _ in range(500):
                timer.schedule(0.01, timer.close)
        threads = [threading.Thread(target=timer.close) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        settled(timer)

    @pytest.mark.parametrize("executor", EXECUTORS)
    def test_a_task_that_does_not_end(self, make, executor):
        """close waits for a stuck task no longer than the timeout, and cancels those behind it."""
        timer, begun, go = make(executor), threading.Event(), threading.Event()
        timer.start()
        timer.schedule(0, int)
        timer.schedule(0.01, lambda: (begun.set(), go.wait(60)))
        assert begun.wait(30)
        before = time.monotonic()
        timer.close(timeout=0.05)
        assert time.monotonic() - before < 30
        go.set()
        settled(timer)

    def test_a_stuck_reaper(self, make):
        """Pending tasks are cancelled after the timeout, even if the reaper is stuck in a task."""
        timer, begun, go = make("inline"), threading.Event(), threading.Event()
        timer.start()
        timer.schedule(0.001, lambda: (begun.set(), go.wait(60)))
        far = timer.add(Watch(1000))
        assert begun.wait(30)
        timer.close(cancel_pending=False, timeout=0.01)
        assert (far.notes, len(timer)) == (["closed"], 0)
        go.set()
        settled(timer)

    @pytest.mark.parametrize("cancel_pending", [True, False])
    def test_no_thread_is_left_when_time_is_over(self, cancel_pending):
        """If nothing is stuck, the threads have ended when close returns after its timeout."""
        timer = Timer("brief")
        timer.start()
        timer.schedule(0, int)
        timer.schedule(1000, int)
        timer.close(cancel_pending=cancel_pending, timeout=0.02)
        deadline = time.monotonic() + 30
        while any("brief" in t.name for t in threading.enumerate()):
            assert time.monotonic() < deadline

    @pytest.mark.parametrize("executor", EXECUTORS)
    @pytest.mark.parametrize("timeout", [0, 0.25, 5])
    def test_a_thread_has_time_to_notice_the_end(self, make, executor, timeout, monkeypatch):
        """close waits for the reaper beyond its timeout: the reaper sleeps as long itself."""
        monkeypatch.setattr("timingwheel.timer.real_seconds", lambda: 1000.0)
        monkeypatch.setattr("timingwheel.timer.JOIN_GRACE_S", 0.5)
        timer, given = make(executor), []
        timer.start()
        timer.schedule(1000, int)
        with monkeypatch.context() as joining:
            joining.setattr(timer._reaper, "join", given.append)
            timer.close(cancel_pending=False, timeout=timeout)
        timer.close()
        settled(timer)
        assert given == [timeout + 0.5]

    def test_timeout_zero_cancels_what_is_due(self, make):
        """After the timeout, dispatched tasks are cancelled instead of run."""
        timer, begun, go = make(), threading.Event(), threading.Event()
        timer.schedule(0, lambda: (begun.set(), go.wait(60)))
        assert begun.wait(30)
        behind = [timer.add(Watch(0)) for _ in range(3)]
        timer.close(timeout=0)
        go.set()
        settled(timer)
        assert [task.notes for task in behind] == [["closed"]] * 3

    @pytest.mark.parametrize("timeout", [1e10, 10**15])
    def test_timeout_of_centuries(self, make, timeout):
        """A timeout beyond what the system can wait for is accepted."""
        for executor in EXECUTORS:
            timer = make(executor)
            timer.start()
            timer.schedule(0, int)
            timer.close(timeout=timeout)

    @pytest.mark.parametrize("timeout", [-1, math.nan, "1"])
    def test_bad_timeout(self, make, timeout):
        """A bad timeout is refused, and the timer stays open."""
        timer = make("inline")
        with pytest.raises((ValueError, TypeError)):
            timer.close(timeout=timeout)
        timer.schedule(0, int)
        timer.close()

    @pytest.mark.parametrize("flag", ["wait", "cancel_pending"])
    def test_a_text_is_no_flag(self, make, flag):
        """The text "no" would count as yes; the timer stays open."""
        timer = make()
        with pytest.raises(TypeError, match=f"{flag} is 'no'; expected a bool"):
            timer.close(**{flag: "no"})
        timer.add(Watch(1000))
        timer.close()

    def test_against_adders(self, make):
        """A task that is added during close either ran or was cancelled, or was refused."""
        for _ in range(10):
            timer, tasks, enough = make(), [], threading.Event()
            timer.start()

            def add(timer=timer, tasks=tasks, enough=enough):
                while True:
                    task = Watch(len(tasks) % 3 / 1000)
                    try:
                        timer.add(task)
                    except TimerClosed:
                        return
                    tasks.append(task)
                    if len(tasks) >= 30:
                        enough.set()

            threads = [threading.Thread(target=add) for _ in range(3)]
            for thread in threads:
                thread.start()
            assert enough.wait(30)
            timer.close()
            for thread in threads:
                thread.join(30)
            timer.close()
            settled(timer)
            assert all(len(task.notes) == 1 for task in tasks)
            assert all(task.done() for task in tasks)
            assert len(timer) == 0

    @pytest.mark.parametrize("executor", EXECUTORS)
    @pytest.mark.parametrize("started", [True, False])
    @pytest.mark.parametrize("lock", LOCKS)
    def test_in_the_middle_of_a_call(self, make, executor, started, lock):
        """A signal handler interrupts a call under a lock: close waits for no thread."""
        timer = make(executor)
        if started:
            timer.start()
        timer.add(waiting := Watch(1000))

        def interrupted():
            with LOCKS[lock](timer):
                timer.close()

        thread = threading.Thread(target=interrupted, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        assert waiting.notes == ["closed"]
        timer.close()
        settled(timer)

    def test_an_interrupted_call_adds_a_task_afterwards(self):
        """The reaper cancels the task, and ends."""
        timer, late = Timer(), Watch(1000)
        timer.start()
        with timer._lock.reading():
            timer.close()
            timer._wheel_state.place(late, timer._clock_reader.now_ns() + 10**12)
        settled(timer)
        assert late.notes == ["closed"]
        assert len(timer) == 0

    def test_closed_timer_does_not_spin(self, make):
        """Waiting on a closed timer without time left returns at once."""
        timer = make("inline")
        timer.add(Watch(1000))
        timer.close(cancel_pending=False, timeout=0)
        before = time.process_time()
        assert timer.advance_clock(1.0) is False
        assert time.process_time() - before < 0.5

    def test_context_manager(self):
        """`with` starts the timer and closes it, also on an error."""

        def use():
            with Timer("cup") as timer:
                tasks.append(timer.add(Watch(1000)))
                names.extend(t.name for t in threading.enumerate() if "cup" in t.name)
                _ = 1 / 0

        tasks, names = [], []
        with pytest.raises(ZeroDivisionError):
            use()
        assert names == ["cup-reaper"]
        assert tasks[0].notes == ["closed"]
        assert not [t for t in threading.enumerate() if "cup" in t.name]
