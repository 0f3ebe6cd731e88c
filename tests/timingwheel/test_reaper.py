"""The reaper and what it sleeps on."""

import threading
import time
from pathlib import Path

import pytest

from tests.testing.recording_waiter import RecordingWaiter
from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed, TimerTask
from timingwheel.clocks.duration import MAX_DELAY_NS, MAX_DELAY_S
from timingwheel.lowlevel import ConditionWaiter, Reaper
from timingwheel.reaper import ERROR_PAUSE_S


def slack_of(thread):
    """Return a thread's timer slack in nanoseconds; None on systems other than Linux."""
    path = Path(f"/proc/{thread}/timerslack_ns")
    return int(path.read_text(encoding="ascii")) if path.exists() else None


class TestConditionWaiter:
    """A wake-up ends one wait, the present or the next."""

    def test_a_wake_up_is_kept_once(self):
        """A wake-up before the wait ends it; three wake-ups count as one."""
        waiter = ConditionWaiter()
        for _ in range(3):
            waiter.wake()
        waiter.wait(None)
        before = time.monotonic()
        waiter.wait(0.02)
        assert time.monotonic() - before >= 0.015

    @pytest.mark.parametrize("timeout", [0, -1, 0.0, 1e-9])
    def test_no_time_to_wait(self, timeout):
        """A timeout of 0 or less returns at once."""
        ConditionWaiter().wait(timeout)

    def test_centuries(self):
        """A timeout beyond what the system can wait for is accepted."""
        waiter = ConditionWaiter()
        for timeout in (1e10, MAX_DELAY_NS / 1e9, float("inf")):
            waiter.wake()
            waiter.wait(timeout)

    def test_woken_from_another_thread(self):
        """A wait without timeout ends when another thread wakes it."""
        waiter = ConditionWaiter()
        thread = threading.Thread(target=waiter.wait, args=(None,))
        thread.start()
        waiter.wake()
        thread.join(30)
        assert not thread.is_alive()


class FakeTimer:
    """A timer for a reaper; finished after some rounds."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.finished_in = None

    def advance_clock(self):
        """Count a round; raise in the second to last."""
        self.rounds -= 1
        if self.rounds == 1:
            raise SystemExit
        return True

    def max_sleep(self):
        """Return 0."""
        return 0

    def finished(self):
        """Return whether all rounds are done."""
        return self.rounds <= 0

    def shut_down(self):
        """Record the thread."""
        self.finished_in = threading.current_thread().name


class NoWaiter:
    """A waiter that never waits."""

    def wait(self, timeout):
        """Return."""

    def wake(self):
        """Return."""


class TestReaper:
    """A thread around step."""

    def test_goes_on_after_an_error(self, caplog):
        """An error of the clock is logged, and the loop goes on."""
        timer = FakeTimer(3)
        reaper = Reaper(timer, NoWaiter(), "r")
        reaper.start()
        reaper.join(30)
        assert reaper.ended()
        assert timer.finished_in == "r"
        assert len(caplog.records) == 1

    def test_step_works_without_a_thread(self):
        """One step sleeps once and advances once."""
        timer = FakeTimer(5)
        Reaper(timer, NoWaiter(), "r").step()
        assert timer.rounds == 4

    def test_interrupted_start_leaves_no_thread(self, monkeypatch):
        """If start is interrupted once the thread has begun, that thread does nothing and ends."""
        timer, start = FakeTimer(3), threading.Thread.start

        def interrupted(thread):
            start(thread)
            raise KeyboardInterrupt

        reaper = Reaper(timer, NoWaiter(), "r")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                reaper.start()
        reaper.join(30)
        assert reaper.ended()
        assert not reaper.started
        assert timer.rounds == 3


class TestStartedTimer:
    """Kafka's SystemTimerReaperTest, and what must wake the reaper."""

    def test_fires_by_itself(self):
        """The reaper fires three tasks within half a second, none of them early."""
        done, early = [threading.Event() for _ in range(3)], []

        def fire(event, due):
            early.append(time.monotonic() < due)
            event.set()

        with Timer() as timer:
            for event, delay in zip(done, (0.05, 0.1, 0.15), strict=True):
                timer.schedule(delay, fire, event, time.monotonic() + delay)
            assert all(event.wait(30) for event in done)
        assert early == [False] * 3

    def test_its_sleeps_are_exact(self):
        """The reaper's timer slack is reduced; that of other threads is unchanged."""
        here = slack_of(threading.get_native_id())
        if here is None:
            pytest.skip("this system has no timer slack to be set")
        found, done = [], threading.Event()
        with Timer(executor=InlineExecutor()) as timer:
            timer.schedule(
                0.001, lambda: (found.append(slack_of(threading.get_native_id())), done.set())
            )
            assert done.wait(30)
        assert found == [1]
        assert slack_of(threading.get_native_id()) == here

    def test_woken_by_an_earlier_bucket(self):
        """A near task that is added after a far one wakes the reaper."""
        near = threading.Event()
        with Timer() as timer:
            for delay in (3000, 300, 60):
                timer.schedule(delay, print)
            timer.schedule(0.05, near.set)
            assert near.wait(30)

    def test_woken_again_and_again(self):
        """Each of many ever nearer tasks wakes the reaper, in whatever state it is."""
        with Timer(executor=InlineExecutor()) as timer:
            for i in range(200):
                fired = threading.Event()
                timer.schedule(1000 - i, print)
                timer.schedule(0.001, fired.set)
                assert fired.wait(30), i

    def test_rearmed_to_earlier(self):
        """A pending task that is moved to an earlier time wakes the reaper."""
        fired = threading.Event()
        with Timer() as timer:
            task = TimerTask(500, fired.set)
            timer.add(task)
            task.delay_ms = 10
            timer.add(task)
            assert fired.wait(30)

    def test_manual_clock_wakes_it(self):
        """A reaper on a manual clock sleeps until the clock is moved to a due time."""
        clock, fired = ManualClock(), threading.Event()
        with Timer(clock=clock) as timer:
            timer.schedule(3600, fired.set)
            clock.advance(3599)
            assert timer.advance_clock() in (True, False)
            assert not fired.is_set()
            clock.advance(1)
            assert fired.wait(30)

    def test_huge_delays_do_not_disturb_it(self, caplog):
        """The reaper sleeps for a task in a hundred years as for any other."""
        near = threading.Event()
        with Timer() as timer:
            timer.schedule(MAX_DELAY_S, print)
            timer.schedule(0.03, near.set)
            assert near.wait(30)
            near.clear()
            timer.schedule(0.03, near.set)
            assert near.wait(30)
        assert caplog.records == []

    def test_start_again_and_after_close(self):
        """A second start does nothing; a closed timer does not start."""
        timer = Timer("pot")
        timer.start()
        timer.start()
        assert [t.name for t in threading.enumerate() if "pot" in t.name] == ["pot-reaper"]
        timer.close()
        with pytest.raises(TimerClosed):
            timer.start()

    def test_start_without_a_thread_left(self, monkeypatch):
        """The error propagates; the timer can be started later, and closed."""
        timer, fired = Timer(), threading.Event()

        def refuse(thread):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start"):
                timer.start()
        assert "not started" in repr(timer)
        assert timer._waiters == ()
        timer.schedule(0.01, fired.set)
        timer.start()
        assert fired.wait(30)
        timer.close()

    def test_a_waiter_of_the_callers(self):
        """The reaper sleeps on the given waiter, even if that is false."""

        class EmptyWaiter(RecordingWaiter):
            def __len__(self):
                return 0

        waiter, timer = EmptyWaiter(), Timer()
        timer.start(waiter)
        assert waiter.next_sleep() is None
        timer.close()

    def test_system_exit_in_an_inline_task_stops_nothing(self):
        """SystemExit in the reaper's thread is an error of the task."""
        told, ran = [], threading.Event()
        with Timer(executor=InlineExecutor(), on_error=lambda e, _: told.append(type(e))) as timer:
            timer.schedule(0.01, exit)
            timer.schedule(0.02, ran.set)
            assert ran.wait(30)
        assert told == [SystemExit]

    def test_idle_costs_nothing(self):
        """With far tasks pending, the reaper sleeps until the first is due: it does not poll."""
        timer, waiter = Timer(tick_ms=1, wheel_size=10**6), RecordingWaiter()
        for delay in (100, 200, 300):
            timer.schedule(delay, print)
        timer.start(waiter)
        assert 90 < waiter.next_sleep() <= 100.001
        timer.close()


def test_a_step_that_failed_is_repeated_at_once():
    """What it left is not put off until something else is due: it does not sleep first."""

    class Sleepless(FakeTimer):
        def max_sleep(self):
            return None if self.rounds == 1 else 0

    timer = Sleepless(3)
    reaper = Reaper(timer, ConditionWaiter(), "reaper")
    reaper.start()
    reaper.join(30)
    assert reaper.ended()
    assert timer.rounds == 0


def test_a_pause_follows_each_further_error_in_a_row():
    """A step that never works does not keep a processor busy; one that works ends the row."""

    class Failing(FakeTimer):
        def advance_clock(self):
            self.rounds -= 1
            if self.rounds not in (0, 2):
                raise ValueError
            return True

    class Noted(NoWaiter):
        def wait(self, timeout):
            waits.append(timeout)

    waits = []
    reaper = Reaper(Failing(6), Noted(), "reaper")
    reaper.start()
    reaper.join(30)
    # Three steps fail, one works, one fails, the last one works.
    assert waits == [0, 0, ERROR_PAUSE_S, 0, ERROR_PAUSE_S, 0, 0, 0, 0]
