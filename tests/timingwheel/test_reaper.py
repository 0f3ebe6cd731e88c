"""The reaper and what it sleeps on."""

import threading
import time
from pathlib import Path

import pytest

from tests.testing.recording_waiter import RecordingWaiter
from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed, TimerTask
from timingwheel.duration import MAX_DELAY_MS
from timingwheel.lowlevel import ConditionWaiter, Reaper


def slack_of(thread):
    """The timer slack of a thread, in nanoseconds; None where there is no such thing."""
    path = Path(f"/proc/{thread}/timerslack_ns")
    return int(path.read_text(encoding="ascii")) if path.exists() else None


class TestConditionWaiter:
    """A wake-up ends one wait, the one under way or the next."""

    def test_a_wake_up_is_kept_once(self):
        """Woken before it waits, it does not wait; three wake-ups are one."""
        waiter = ConditionWaiter()
        for _ in range(3):
            waiter.wake()
        waiter.wait(None)
        before = time.monotonic()
        waiter.wait(0.02)
        assert time.monotonic() - before >= 0.015

    @pytest.mark.parametrize("timeout", [0, -1, 0.0, 1e-9])
    def test_no_time_to_wait(self, timeout):
        """Nothing, or less, is not for ever."""
        ConditionWaiter().wait(timeout)

    def test_centuries(self):
        """More than the system can wait for is waited for all the same."""
        waiter = ConditionWaiter()
        for timeout in (1e10, MAX_DELAY_MS / 1000, float("inf")):
            waiter.wake()
            waiter.wait(timeout)

    def test_woken_from_another_thread(self):
        """A wait without end ends."""
        waiter = ConditionWaiter()
        thread = threading.Thread(target=waiter.wait, args=(None,))
        thread.start()
        waiter.wake()
        thread.join(30)
        assert not thread.is_alive()


class FakeTimer:
    """What a reaper needs of a timer."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.finished_in = None

    def advance_clock(self):
        """One round; the first one fails."""
        self.rounds -= 1
        if self.rounds == 1:
            raise SystemExit
        return True

    def max_sleep(self):
        """None."""
        return 0

    def finished(self):
        """When the rounds are over."""
        return self.rounds <= 0

    def shut_down(self):
        """Note the thread."""
        self.finished_in = threading.current_thread().name


class NoWaiter:
    """Does not wait."""

    def wait(self, timeout):
        """Return."""

    def wake(self):
        """Return."""


class TestReaper:
    """A thread around step."""

    def test_goes_on_after_an_error(self, caplog):
        """What a clock raises is logged, and the loop goes on to its end."""
        timer = FakeTimer(3)
        reaper = Reaper(timer, NoWaiter(), "r")
        reaper.start()
        reaper.join(30)
        assert reaper.ended()
        assert timer.finished_in == "r"
        assert len(caplog.records) == 1

    def test_step_works_without_a_thread(self):
        """One sleep, one advance."""
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
    """Kafka's SystemTimerReaperTest, and what a sleeping reaper must not miss."""

    def test_fires_by_itself(self):
        """Three tasks within half a second, nobody advances; never early."""
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
        """The reaper has told Linux to end its sleeps in time; other threads are as they were."""
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
        """A near task after a far one fires, long before the far one."""
        near = threading.Event()
        with Timer() as timer:
            for delay in (3000, 300, 60):
                timer.schedule(delay, print)
            timer.schedule(0.05, near.set)
            assert near.wait(30)

    def test_woken_again_and_again(self):
        """Each of many ever nearer tasks wakes it, in whatever state it is."""
        with Timer(executor=InlineExecutor()) as timer:
            for i in range(200):
                fired = threading.Event()
                timer.schedule(1000 - i, print)
                timer.schedule(0.001, fired.set)
                assert fired.wait(30), i

    def test_rearmed_to_earlier(self):
        """So does a pending task that is moved to an earlier time."""
        fired = threading.Event()
        with Timer() as timer:
            task = TimerTask(500, fired.set)
            timer.add(task)
            task.delay_ms = 10
            timer.add(task)
            assert fired.wait(30)

    def test_manual_clock_wakes_it(self):
        """A started timer on a manual clock sleeps until the clock is moved to where it is due."""
        clock, fired = ManualClock(), threading.Event()
        with Timer(clock=clock) as timer:
            timer.schedule(3600, fired.set)
            clock.advance(3599)
            assert timer.advance_clock() in (True, False)
            assert not fired.is_set()
            clock.advance(1)
            assert fired.wait(30)

    def test_huge_delays_do_not_disturb_it(self, caplog):
        """A task in a million years is slept for like any other."""
        near = threading.Event()
        with Timer() as timer:
            timer.schedule(MAX_DELAY_MS // 1000, print)
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
        """The error is passed on; the timer is as it was: it can be started later, and closed."""
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
        """The reaper sleeps on what it is given, even if that is empty and false."""

        class EmptyWaiter(RecordingWaiter):
            def __len__(self):
                return 0

        waiter, timer = EmptyWaiter(), Timer()
        timer.start(waiter)
        assert waiter.next_sleep() is None
        timer.close()

    def test_system_exit_in_an_inline_task_stops_nothing(self):
        """In the reaper's own thread, too, it is the task's error."""
        told, ran = [], threading.Event()
        with Timer(executor=InlineExecutor(), on_error=lambda e, _: told.append(type(e))) as timer:
            timer.schedule(0.01, exit)
            timer.schedule(0.02, ran.set)
            assert ran.wait(30)
        assert told == [SystemExit]

    def test_idle_costs_nothing(self):
        """With far tasks pending, the reaper sleeps until the first is due: it does not poll."""
        timer, waiter = Timer(wheel_size=10**6), RecordingWaiter()
        for delay in (100, 200, 300):
            timer.schedule(delay, print)
        timer.start(waiter)
        assert 90 < waiter.next_sleep() <= 100.001
        timer.close()
