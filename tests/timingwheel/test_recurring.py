"""Timer.every: a task that runs again and again, at a fixed rate."""

import contextvars
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.testing.eventually import HANG, eventually
from tests.testing.interrupts import GROUND_FLOOR, TIMINGWHEEL, TimeLimit, interrupted_at
from timingwheel import COMPILED, InlineExecutor, ManualClock, Recurring, Timer, TimerFull

VARIABLE = contextvars.ContextVar("VARIABLE", default="none")


@pytest.fixture
def clock():
    return ManualClock(10_000)


@pytest.fixture
def timer(clock):
    errors = []
    with_errors = Timer(
        clock=clock, executor=InlineExecutor(), on_error=lambda error, _: errors.append(error)
    )
    with_errors.errors = errors
    yield with_errors
    with_errors._check()
    with_errors.close()


def move(timer, clock, seconds):
    clock.advance(seconds)
    while timer.advance_clock():
        pass


def test_runs_at_a_fixed_rate(timer, clock):
    """The n-th run is due n intervals after the start, in nanoseconds, and never early."""
    at = []
    recurring = timer.every(0.3, lambda: at.append(clock.now_ns()))
    assert isinstance(recurring, Recurring)
    for _ in range(100):
        move(timer, clock, 0.1)
    assert at == [10_000_000_000 + n * 300_000_000 for n in range(1, 34)]
    assert (recurring.skipped, len(timer)) == (0, 1)
    assert recurring.when() == pytest.approx(10 + 34 * 0.3)


@pytest.mark.parametrize("first", [0, 0.25, timedelta(seconds=5)])
def test_the_first_run(timer, clock, first):
    """It comes after `first`, which may be 0, and the rate counts from there."""
    at = []
    timer.every(1, lambda: at.append(clock() - 10_000), first=first)
    first_ms = 1000 * (5 if isinstance(first, timedelta) else first)
    for _ in range(40):
        move(timer, clock, 0.25)
    assert at[:4] == [first_ms + n * 1000 for n in range(4)]


def test_missed_runs_are_skipped_and_counted(timer, clock):
    """After a pause one run comes late, those missed do not come, and the rate goes on."""
    at = []
    recurring = timer.every(1, lambda: at.append(clock() - 10_000))
    move(timer, clock, 10.5)
    assert (at, recurring.skipped) == ([10_500], 9)
    move(timer, clock, 0.5)
    assert (at, recurring.skipped) == ([10_500, 11_000], 9)


def test_a_callback_longer_than_the_interval(timer, clock):
    """Runs do not overlap; those that come due meanwhile are skipped, but for one due right now."""
    at = []

    def work():
        at.append(clock() - 10_000)
        clock.advance(2 if len(at) < 3 else 0.5)

    recurring = timer.every(1, work)
    move(timer, clock, 1)
    assert at == [1000, 3000, 5000]
    assert recurring.skipped == 2


def test_cancel(timer, clock):
    """True for the one call that ends it; it is gone from the timer at once."""
    ran = []
    recurring = timer.every(1, ran.append, 1)
    move(timer, clock, 1)
    assert not recurring.cancelled()
    assert not recurring.done()
    assert recurring.cancel() is True
    assert recurring.cancel() is False
    assert recurring.cancelled()
    assert recurring.done()
    assert len(timer) == 0
    move(timer, clock, 5)
    assert ran == [1]


def test_a_cancelled_one_that_is_added_again_never_runs(timer, clock):
    """Its end is for good."""
    ran = []
    recurring = timer.every(1, ran.append, 1)
    recurring.cancel()
    timer.add(recurring)
    move(timer, clock, 5)
    assert not ran
    assert len(timer) == 0


def test_cancel_from_the_callback(timer, clock):
    """No further run starts."""
    ran = []

    def work():
        ran.append(recurring.cancel())

    recurring = timer.every(1, work)
    move(timer, clock, 5)
    move(timer, clock, 5)
    assert ran == [True]
    assert len(timer) == 0


class CancelledInBetween(Recurring):
    """Is cancelled by another thread just after the running one has looked."""

    __slots__ = ("looked",)

    def cancelled(self):
        if not getattr(self, "looked", False):
            self.looked = True
            assert self._end()
            return False
        return super().cancelled()


def test_cancel_while_the_next_run_is_armed(timer, clock):
    """A cancel between the look at the flag and the adding leaves no task behind."""
    recurring = CancelledInBetween(timer, 10**9, lambda: None, (), None)
    recurring.delay_ms = 1000
    timer.add(recurring)
    move(timer, clock, 1)
    assert len(timer) == 0
    assert recurring.cancelled()


class Stop(BaseException):
    """What a callback raises that is no Exception."""


class RunsAtOnce(Recurring):
    """Is run by another thread just after its next run was armed."""

    __slots__ = ("other",)

    def cancelled(self):
        if self._tt_list is not None and not self.other.ident:
            self.other.start()
            assert self.entered.wait(30)
        return super().cancelled()


def test_an_error_while_another_thread_runs_it_again(timer, clock):
    """The other thread, too, arms the next run once: runs do not overlap."""
    go_on = threading.Event()
    RunsAtOnce.entered = threading.Event()

    def run():
        if not recurring.other.ident:
            raise Stop
        RunsAtOnce.entered.set()
        assert go_on.wait(30)

    recurring = RunsAtOnce(timer, 10**9, run, (), None)
    recurring.other = threading.Thread(target=move, args=(timer, clock, 1))
    recurring.delay_ms = 1000
    timer.add(recurring)
    move(timer, clock, 1)
    try:
        assert ([type(error) for error in timer.errors], len(timer)) == ([Stop], 0)
    finally:
        go_on.set()
        recurring.other.join(30)
    assert len(timer) == 1


def test_an_exception_stops_nothing(timer, clock):
    """It is reported, and the next run comes."""
    recurring = timer.every(1, lambda: 1 / 0)
    for _ in range(3):
        move(timer, clock, 1)
    assert [type(error) for error in timer.errors] == [ZeroDivisionError] * 3
    assert recurring.skipped == 0


@pytest.mark.parametrize("cancel_pending", [True, False])
def test_the_timer_closes(clock, cancel_pending):
    """A closed timer ends it, at once or after the run that was pending."""
    ran = []
    timer = Timer(clock=clock, executor=InlineExecutor())
    recurring = timer.every(1, ran.append, 1)
    timer.close(cancel_pending=cancel_pending)
    move(timer, clock, 1)
    move(timer, clock, 1)
    assert ran == [1] * (not cancel_pending)
    assert recurring.done()
    assert len(timer) == 0
    assert recurring.cancel() is False


def test_the_limit_is_for_the_first_wait_only(clock):
    """A run that has come due is not refused its next one."""
    timer = Timer(clock=clock, executor=InlineExecutor(), max_pending=2)
    ran = []

    def work():
        ran.append(clock())
        if len(ran) == 1:
            timer.schedule(100, print)
            timer.schedule(100, print)

    timer.every(1, work)
    timer.schedule(1, len, ())
    with pytest.raises(TimerFull):
        timer.every(1, work)
    for _ in range(3):
        move(timer, clock, 1)
    assert len(ran) == 3
    timer.close()


def test_reschedule_moves_the_rate(timer, clock):
    """The runs after it count from the new one."""
    at = []
    recurring = timer.every(1, lambda: at.append(clock() - 10_000))
    assert timer.reschedule(recurring, 1.5)
    for _ in range(8):
        move(timer, clock, 0.5)
    assert at == [1500, 2500, 3500]


@pytest.mark.parametrize("bad", [0, 0.0, timedelta(), -1, math.nan, math.inf])
def test_bad_intervals(timer, bad):
    """An interval of 0, or of no length, is a ValueError that names it."""
    with pytest.raises(ValueError, match="interval is"):
        timer.every(bad, print)
    assert len(timer) == 0


def test_bad_arguments(timer):
    """Each is named; nothing is added."""
    with pytest.raises(TypeError, match="interval is"):
        timer.every("1", print)
    with pytest.raises(ValueError, match="first is"):
        timer.every(1, print, first=-1)
    with pytest.raises(TypeError, match="callback is"):
        timer.every(1, None)
    assert len(timer) == 0


def test_in_a_context(timer, clock):
    """Every run is in the context that was given."""
    context = contextvars.copy_context()
    context.run(VARIABLE.set, "given")
    seen = []
    timer.every(1, lambda: seen.append(VARIABLE.get()), context=context)
    move(timer, clock, 1)
    move(timer, clock, 1)
    assert seen == ["given", "given"]


def test_cancelled_by_many_threads():
    """Exactly one cancel is told that it ended the task, while it runs all the time."""
    for _ in range(20):
        with Timer(tick_ms=0.01) as timer:
            recurring = timer.every(0.00001, lambda: None)
            won, start = [], threading.Barrier(4)

            def cancel(recurring=recurring, won=won, start=start):
                start.wait(30)
                won.append(recurring.cancel())

            threads = [threading.Thread(target=cancel) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert sorted(won) == [False, False, False, True]
        assert len(timer) == 0
        timer._check()


@pytest.mark.skipif(COMPILED, reason="compiled code cannot be traced")
@pytest.mark.parametrize(
    ("error", "folders"),
    [
        (KeyboardInterrupt, (TIMINGWHEEL, GROUND_FLOOR)),
        # An Exception elsewhere may be taken for that of a clock or an executor.
        (TimeLimit, (f"{TIMINGWHEEL}/recurring.py", f"{TIMINGWHEEL}/task.py")),
    ],
)
def test_an_interrupt_at_every_place_does_not_end_it(timer, clock, error, folders):
    """Whatever a signal handler's error comes in the middle of, all further runs come in time."""
    at, fired = 0, True
    while fired:
        at += 1
        runs = []
        recurring = timer.every(1, runs.append, 1)
        fired = interrupted_at(at, lambda: move(timer, clock, 1), folders, error).fired
        timer.advance_clock()  # what the interrupted drain has left
        seen = len(runs)
        for _ in range(3):
            move(timer, clock, 1)
        assert len(runs) == seen + 3, at
        assert recurring.cancel()
    assert at > 9, "places where an interrupt can come"


def test_a_clock_that_raises_once_stops_nothing(clock):
    """The error is reported, and the next run comes at its time."""
    errors, runs = [], []

    class Failing(ManualClock):
        fails = False

        def now_ns(self):
            if Failing.fails:
                Failing.fails = False
                raise OSError("no clock")
            return super().now_ns()

    def run():
        runs.append(1)
        Failing.fails = len(runs) == 1

    clock = Failing()
    timer = Timer(
        clock=clock, executor=InlineExecutor(), on_error=lambda error, _: errors.append(error)
    )
    recurring = timer.every(10, run)
    for _ in range(3):
        clock.advance(10)
        timer.advance_clock()
    assert (len(runs), [str(error) for error in errors]) == (3, ["no clock"])
    assert not recurring.done()
    timer.close()


@pytest.mark.parametrize("first", [1, 10])
def test_the_callback_adds_it_again(timer, clock, first):
    """The next run comes after the interval from then, and later runs count from that one."""
    ran = []

    def work():
        ran.append(clock())
        if len(ran) == 1:
            timer.add(recurring)

    recurring = timer.every(10, work, first=first)
    move(timer, clock, first + 1)
    for _ in range(4):
        move(timer, clock, 5)
    assert ran == [ran[0], ran[0] + 10_000, ran[0] + 20_000]
    assert recurring.skipped == 0


def test_no_run_overlaps_when_it_is_added_again(clock):
    """A run that comes due during another one does not start."""
    started, inside, go_on = [], threading.Event(), threading.Event()

    def work():
        started.append(1)
        if len(started) == 1:
            timer.add(recurring)
            inside.set()
            go_on.wait(HANG)

    with ThreadPoolExecutor(2) as pool:
        timer = Timer(clock=clock, executor=pool)
        recurring = timer.every(1, work)
        move(timer, clock, 1)
        assert inside.wait(HANG)
        move(timer, clock, 1)
        pool.submit(int).result(HANG)  # behind that run, in the other thread
        assert (len(started), recurring.skipped, len(timer)) == (1, 1, 1)
        go_on.set()
        eventually(lambda: not recurring._rc_runs)
        move(timer, clock, 1)
        eventually(lambda: len(started) == 2)
        timer.close()
