"""Lanes: several wheels in one timer behave as one.

Compiled without the interpreter lock a timer has them by itself. Interpreted, these tests give it
four, and each new task to the next one. Elsewhere what is compiled has one lane.
"""

import contextlib
import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.timingwheel.test_timer_fork import in_child
from tests.timingwheel.test_timer_model import TimerMachine, run_model
from timingwheel import (
    COMPILED,
    InlineExecutor,
    ManualClock,
    Timer,
    TimerClosed,
    TimerForked,
    TimerFull,
    TimerTask,
    timer_core,
)
from timingwheel import lanes as lanes_module
from timingwheel import timer as timer_module
from timingwheel.lowlevel import LOCKED_SECTIONS

HANG_S = 60

pytestmark = pytest.mark.skipif(
    COMPILED and not LOCKED_SECTIONS, reason="compiled with the interpreter lock: one lane"
)


@pytest.fixture(autouse=True)
def four_lanes(monkeypatch):
    """Give timers that are made from now on four lanes, where the code is interpreted."""
    if COMPILED:
        return
    numbers = itertools.count()
    lane_of = {}  # the tasks as well: an id is given again to what comes later

    def number_of(_lanes, task):
        return lane_of.setdefault(id(task), (task, next(numbers)))[1]

    monkeypatch.setattr(timer_module, "MANY_LANES", True)
    monkeypatch.setattr(lanes_module, "MAX_LANES", 4)
    monkeypatch.setattr(lanes_module.Lanes, "_number_of", number_of)
    monkeypatch.setattr(timer_core, "MANY_LANES", True)


def manual_timer(**options):
    """A timer that is driven by hand, and its clock."""
    clock = ManualClock()
    return Timer(clock=clock, executor=InlineExecutor(), tick_ms=1, **options), clock


def in_threads(count, work):
    """Call `work` with 0, 1 and so on, each in a thread of its own; what it returned."""
    with ThreadPoolExecutor(count) as pool:
        ready = threading.Barrier(count)

        def begin(number):
            ready.wait(HANG_S)
            return work(number)

        return list(pool.map(begin, range(count), timeout=HANG_S))


def made_in_threads(count, work):
    """What `work` has made in each thread, in one list."""
    return list(itertools.chain.from_iterable(in_threads(count, work)))


def noop():
    """Do nothing."""


def test_tasks_of_all_lanes_run_in_the_order_of_their_ticks():
    """Four threads schedule at random; one drain of it all runs it tick by tick."""
    timer, clock = manual_timer()
    ran = []

    def schedule(seed):
        delays = random.Random(seed).sample(range(1, 20_000), 300)
        return [timer.schedule(delay / 1000, ran.append, delay) for delay in delays]

    tasks = made_in_threads(4, schedule)
    assert len(timer._wheels.all()) >= 4  # the thread that made the timer may have one, too
    timer._check()
    assert len(timer) == len(tasks) == 1200
    clock.advance(20)
    assert timer.advance_clock()
    assert ran == sorted(task.delay_ms for task in tasks)
    assert len(timer) == 0
    timer._check()


def test_figures_are_those_of_one_wheel():
    """Counts, levels, first tasks and the delay to the next bucket are as with one lane."""
    many, many_clock = manual_timer()
    one, one_clock = manual_timer(max_pending=10_000)
    assert len(one._wheels.all()) == 1
    rng = random.Random(1)
    delays = [rng.randrange(1, 100_000) / 1000 for _ in range(400)]
    for timer in (many, one):
        tasks = made_in_threads(
            4, lambda n, t=timer: [t.schedule(d, noop) for d in delays[100 * n : 100 * n + 100]]
        )
        for task in tasks[::7]:
            assert task.cancel()
    for _ in range(30):
        assert many.delay_to_next() == one.delay_to_next()
        assert many.max_sleep() == one.max_sleep()
        many_clock.advance(1.5)
        one_clock.advance(1.5)
        assert many.advance_clock() == one.advance_clock()
        assert many.levels() == one.levels()
        found, expected = many.first_tasks(5), one.first_tasks(5)
        assert [task.deadline_ns for task in found] == [task.deadline_ns for task in expected]
        stats, expected = many.stats(), one.stats()
        for name in ("pending", "fired", "cancelled", "executor_backlog"):
            assert getattr(stats, name) == getattr(expected, name), name
        assert sum(stats.buckets_occupied) >= sum(expected.buckets_occupied)
        many._check()


@pytest.mark.parametrize("wheel_size", [3, 64])
def test_lanes_against_model(wheel_size):
    """Over thousands of steps tasks of all lanes fire when the model fires them, in its order."""

    class Machine(TimerMachine):
        max_pending = None

    Machine.wheel_size = wheel_size
    run_model(Machine)


def test_child_refuses_in_every_lane():
    """After a fork tasks of no lane can be added, moved or cancelled in the child."""
    timer, _ = manual_timer()
    tasks = made_in_threads(4, lambda _: [timer.schedule(1, noop)])

    def check():
        for task in tasks:
            for refused in (task.cancel, lambda task=task: timer.reschedule(task, 2)):
                with pytest.raises(TimerForked):
                    refused()
        for _ in range(8):
            with pytest.raises(TimerForked):
                timer.schedule(1, noop)

    in_child(check)
    assert all(task.cancel() for task in tasks)


def test_threads_that_act_on_other_lanes_under_a_lock_wait_for_no_other():
    """As a finalizer does that the collector runs while a bucket is made: no two are stuck."""
    timer, _ = manual_timer()
    made_in_threads(4, lambda _: [timer.schedule(1, noop)])
    lanes = timer._wheels.all()

    def act(number):
        for turn in range(2000):
            with lanes[number].lock.reading(), lanes[(number + turn) % 4].lock.reading():
                pass
        return number

    assert in_threads(4, act) == [0, 1, 2, 3]


def test_limited_timer_has_one_lane():
    """One lock guards the count of a timer with `max_pending`, so it is exact."""
    timer, _ = manual_timer(max_pending=50)

    def schedule(_):
        added = 0
        for _ in range(50):
            with contextlib.suppress(TimerFull):
                timer.schedule(1, noop)
                added += 1
        return added

    assert sum(in_threads(4, schedule)) == 50
    assert len(timer._wheels.all()) == 1


class Counted(TimerTask):
    """A task that counts its runs, and the cancels that prevented one."""

    def __init__(self, delay):
        super().__init__(delay)
        self.runs = self.prevented = 0

    def run(self):
        """Count."""
        self.runs += 1


def test_each_task_ends_once_whichever_thread_acts_on_it():
    """Threads add, move and cancel tasks that others have made, while the reaper runs."""
    timer = Timer(tick_ms=1)
    tasks = [[Counted(0.001 * (n % 40)) for n in range(1500)] for _ in range(4)]
    added = [0] * 4

    def act(number):
        rng = random.Random(number)
        for task in tasks[number]:
            timer.add(task)
            added[number] += 1
            other = rng.choice(tasks[rng.randrange(4)])
            if rng.random() < 0.5:
                timer.reschedule(other, 0.001 * rng.randrange(30))
            else:
                other.prevented += other.cancel()

    with timer:
        in_threads(4, act)
        timer._check()
        timer.close(cancel_pending=False, timeout=HANG_S)
    timer._check()
    assert len(timer) == 0
    stats = timer.stats()
    runs = [task.runs for each in tasks for task in each]
    assert stats.fired == sum(runs)
    assert stats.fired + stats.cancelled == sum(added)
    assert set(runs) <= {0, 1}


def test_one_task_added_by_all_threads_stays_one():
    """Whichever threads add a task, it has one lane, moves, stays one and runs once."""
    timer, clock = manual_timer()
    for _ in range(50):
        task = Counted(1)
        in_threads(4, lambda _, task=task: [timer.add(task) for _ in range(20)])
        assert len(timer) == 1
        timer._check()
        clock.advance(2)
        timer.advance_clock()
        assert (task.runs, len(timer)) == (1, 0)


def test_close_beside_threads_that_add():
    """What was accepted in any lane ends; nothing is left, nothing is accepted afterwards."""
    for _ in range(20):
        timer = Timer()
        closed = threading.Event()

        def add(_, timer=timer, closed=closed):
            accepted = []
            try:
                while True:
                    accepted.append(timer.schedule(60, noop))
                    if len(accepted) == 5:
                        closed.set()
            except TimerClosed:
                return accepted

        def close(timer=timer, closed=closed):
            assert closed.wait(HANG_S)
            timer.close()

        closer = threading.Thread(target=close)
        closer.start()
        accepted = made_in_threads(3, add)
        closer.join(HANG_S)
        assert len(timer) == 0
        assert all(task.cancelled() for task in accepted)
        timer._check()
        for _ in range(4):
            with pytest.raises(TimerClosed):
                timer.schedule(60, noop)


def test_earlier_task_of_another_lane_wakes_the_reaper():
    """The reaper sleeps until a far task of one lane; near ones of the others run in time."""
    with Timer() as timer:
        timer.schedule(3600, noop)
        for _ in range(4):
            ran = threading.Event()
            timer.schedule(0.01, ran.set)
            assert ran.wait(HANG_S)


def test_task_at_once_and_at_a_moment_of_any_lane():
    """Delay 0, the past, and a recurring task come to the executor from every lane."""
    timer, clock = manual_timer()
    ran = []
    for number in range(4):
        timer.schedule(0, ran.append, number)
        timer.schedule_at(-1.0, ran.append, number)
    timer.advance_clock()
    assert ran == [number for number in range(4) for _ in range(2)]
    recurring = [timer.every(1, ran.append, number) for number in range(4)]
    ran.clear()
    for _ in range(3):
        clock.advance(1)
        timer.advance_clock()
    assert sorted(ran) == sorted(list(range(4)) * 3)
    for each in recurring:
        assert each.cancel()
    assert len(timer) == 0
    timer._check()


def test_a_timer_with_a_limit_has_one_wheel():
    """One lock guards the count of all its tasks; locks.md and atomicity.md say so."""
    assert manual_timer()[0]._lanes is not None
    assert manual_timer(max_pending=1)[0]._lanes is None
