"""A clock that goes back loses nothing: time goes on from the last reading."""

import threading

import freezegun
import pytest

from timingwheel import InlineExecutor, ManualClock, Timer, monotonic_ms
from timingwheel.clocks.clock_reader import MonotonicClockReader, clock_reader_for

NS_PER_S = 10**9
START_S = 1_800_000_000
STEPS_BACK_S = (0.002, 1, 3600, 40 * 365 * 86400)


class WallClock:
    """A clock of milliseconds that may be set to any moment."""

    def __init__(self):
        self.now_s = float(START_S)

    def __call__(self):
        return round(self.now_s * 1000)


class NanosecondWallClock(WallClock):
    """The same with nanoseconds."""

    def now_ns(self):
        return round(self.now_s * 1000) * 10**6


@pytest.fixture(params=[WallClock, NanosecondWallClock])
def clock(request):
    return request.param()


@pytest.fixture
def timer(clock):
    timer = Timer(clock=clock, executor=InlineExecutor())
    yield timer
    timer._check()
    timer.close()


class TestReader:
    @pytest.mark.parametrize("back_s", STEPS_BACK_S)
    def test_time_goes_on(self, clock, back_s):
        """The reading after a step back is the last one; then time moves as the clock does."""
        reader = clock_reader_for(clock)
        clock.now_s += 5
        last_ns = reader.now_ns()
        clock.now_s -= back_s
        assert [reader.now_ns(), reader.now_ns()] == [last_ns, last_ns]
        clock.now_s += 7
        assert reader.now_ns() == last_ns + 7 * NS_PER_S
        assert reader.seconds_until(last_ns + 9 * NS_PER_S) == 2

    def test_again_and_again(self, clock):
        """Each step back adds to the offset; a step forward counts."""
        reader = clock_reader_for(clock)
        start_ns = reader.now_ns()
        for moved, _ in enumerate(range(20), start=1):
            clock.now_s += 1
            assert reader.now_ns() == start_ns + moved * NS_PER_S
            clock.now_s -= 100
            assert reader.now_ns() == start_ns + moved * NS_PER_S

    def test_beyond_all_bounds(self):
        """Steps that no time can bridge are a ValueError."""
        clock = WallClock()
        reader = clock_reader_for(clock)
        with pytest.raises(ValueError, match="the clock went back by"):  # noqa: PT012
            for _ in range(100):
                clock.now_s = 3e9
                reader.now_ns()
                clock.now_s = -3e9
                reader.now_ns()

    def test_threads_that_read_at_once_move_nothing(self):
        """A thread that compares an older reading does not take that for a step back."""
        reader, wrong = clock_reader_for(lambda: monotonic_ms()), []

        def read():
            for _ in range(20_000):
                reader.now_ns()
            wrong.append(reader._offset_ns) if reader.time_of_reading(0) else None

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestTimer:
    @pytest.mark.parametrize("back_s", STEPS_BACK_S)
    def test_no_task_is_early_and_none_waits(self, timer, clock, back_s):
        """Tasks of before and after the step come due when the clock has moved by their delays."""
        fired = []
        timer.schedule(10, fired.append, "before")
        clock.now_s += 4
        timer.advance_clock()
        clock.now_s -= back_s
        timer.schedule(10, fired.append, "after")
        timer.schedule(0.001, fired.append, "soon")
        timer.schedule_at(clock.now_s + 8, fired.append, "at")
        timer.advance_clock()
        assert fired == []
        seen = []
        for _ in range(11):
            clock.now_s += 1
            while timer.advance_clock():
                pass
            seen.append(tuple(fired))
            fired.clear()
        assert seen[0] == ("soon",)
        assert (seen[5], seen[7], seen[9]) == (("before",), ("at",), ("after",))
        assert sum(map(len, seen)) == 4

    @pytest.mark.parametrize("back_s", STEPS_BACK_S)
    def test_every_keeps_its_rate(self, timer, clock, back_s):
        """A recurring task runs once an interval, and not in a loop."""
        runs = []
        recurring = timer.every(5, runs.append, 1)
        for _ in range(4):
            clock.now_s += 5
            timer.advance_clock()
            clock.now_s -= back_s
            for _ in range(10):
                timer.advance_clock()
        assert len(runs) == 4
        assert recurring.skipped == 0

    def test_reschedule_counts_from_now(self, timer, clock):
        """A delay that begins anew after the step is as long as any."""
        fired = []
        task = timer.schedule(10, fired.append, 1)
        clock.now_s -= 3600
        assert timer.reschedule(task, 20)
        clock.now_s += 19
        timer.advance_clock()
        assert fired == []
        clock.now_s += 1.001
        while not fired:
            assert timer.advance_clock()

    def test_a_reaper_sleeps_no_longer(self):
        """A thread that sleeps in real time wakes for a task made after the step."""
        offset_ms = [0]
        timer = Timer(clock=lambda: monotonic_ms() - offset_ms[0])
        with timer:
            early, fired = threading.Event(), threading.Event()
            timer.schedule(3600, early.set)
            offset_ms[0] = 3_600_000
            timer.schedule(0.02, fired.set)
            assert fired.wait(60)
            assert not early.is_set()


class TestFreezegun:
    """Freezing time moves no deadline, neither as it begins nor as it ends."""

    def test_what_waits_goes_on_waiting(self):
        """A pending task is not due because time was frozen at some date for a while."""
        timer, fired = Timer(executor=InlineExecutor()), []
        timer.schedule(600, fired.append, "pending")
        for date in ("2024-01-01", "2034-01-01", "1971-01-01"):
            with freezegun.freeze_time(date):
                timer.advance_clock()
                timer.schedule(600, fired.append, "frozen")
            timer.schedule(600, fired.append, "new")
            recurring = timer.every(600, fired.append, "every")
            for _ in range(20):
                timer.advance_clock()
            recurring.cancel()
        assert fired == []
        assert len(timer) == 7
        timer.close()

    @pytest.mark.parametrize("made_before", [True, False])
    def test_a_task_of_a_frozen_block_fires_in_real_time(self, made_before):
        """After the block its delay is real time, wherever the timer was made."""
        timer = Timer(executor=InlineExecutor()) if made_before else None
        fired = []
        with freezegun.freeze_time("2024-01-01"):
            timer = timer or Timer(executor=InlineExecutor())
            timer.schedule(0.05, fired.append, 1)
            assert not timer.advance_clock(0.01)
        delay = timer.delay_to_next()
        assert 0 <= delay <= 0.06
        while not fired:
            timer.advance_clock(1)
        timer.close()

    def test_frozen_time_moves_what_waits(self):
        """The frozen time is honoured by timers from before the block, too."""
        timer, fired = Timer(executor=InlineExecutor()), []
        timer.schedule(600, fired.append, 1)
        with freezegun.freeze_time("2024-01-01") as frozen:
            timer.advance_clock()
            frozen.tick(599)
            timer.advance_clock()
            assert fired == []
            frozen.tick(1.1)
            while not fired:
                assert timer.advance_clock()
            frozen.move_to("2023-01-01")
            timer.schedule(5, fired.append, 2)
            timer.advance_clock()
            frozen.tick(5.1)
            while len(fired) < 2:
                assert timer.advance_clock()
        timer.close()

    def test_a_moment_within_a_block(self):
        """schedule_at takes what the frozen clock reads."""
        timer, fired = Timer(executor=InlineExecutor()), []
        with freezegun.freeze_time("2024-01-01") as frozen:
            timer.schedule_at(monotonic_ms() / 1000 + 5, fired.append, 1)
            timer.advance_clock()
            assert fired == []
            frozen.tick(5.1)
            while not fired:
                assert timer.advance_clock()
        timer.close()

    def test_the_readings(self):
        """Time stands still in the block and goes on behind it, from the last reading."""
        reader = MonotonicClockReader()
        before_ns = reader.now_ns()
        with freezegun.freeze_time("2024-01-01") as frozen:
            first_ns = reader.now_ns()
            assert 0 <= first_ns - before_ns < 60 * NS_PER_S
            assert reader.now_ns() == first_ns
            frozen.tick(1000)
            assert reader.now_ns() == first_ns + 1000 * NS_PER_S
        after_ns = reader.now_ns()
        assert 0 <= after_ns - first_ns - 1000 * NS_PER_S < 60 * NS_PER_S


def test_a_manual_clock_never_goes_back():
    """It refuses, so its timers need no offset."""
    clock = ManualClock(5)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_to(4)
