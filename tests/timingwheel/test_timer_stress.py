"""The timer under load from several threads: exactly once, bounded waits, memory freed."""

import gc
import random
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from timingwheel import COMPILED, InlineExecutor, ManualClock, Timer, TimerTask

# Bytes that CPython without the interpreter lock keeps for threads that are just ending.
THREADS_OWN = 2**19 if "t" in sys.abiflags else 0


class Counted(TimerTask):
    """A task that counts its runs, and the cancels that prevented one."""

    def __init__(self, delay):
        super().__init__(delay)
        self.runs = 0
        self.prevented = 0

    def run(self):
        """Count."""
        self.runs += 1


def together(*targets):
    """Run each function in its own thread; an error in one fails the test."""
    with ThreadPoolExecutor(len(targets)) as pool:
        for future in [pool.submit(target) for target in targets]:
            future.result(100)


def churn(timer, seed, rounds, keep):
    """Add and cancel at random, and count the cancels that returned True."""
    rng = random.Random(seed)
    mine = []
    for _ in range(rounds):
        if mine and rng.random() < 0.4:
            task = mine.pop(rng.randrange(len(mine)))
            task.prevented += task.cancel()
        else:
            task = timer.add(Counted(rng.choice((0, 0.001, 0.002, 0.01, 0.021, 0.05, 30))))
            mine.append(task)
            keep.append(task)


@pytest.mark.parametrize("kind", ["worker", "inline", "pool"])
@pytest.mark.parametrize(("tick_ms", "wheel_size"), [(1, 20), (1, 3), (7, 2)])
def test_each_task_ends_exactly_once(kind, tick_ms, wheel_size):
    """Four threads add and cancel while the reaper runs: each task runs or is cancelled, once."""
    with ThreadPoolExecutor(2) as pool:
        executor = {"worker": None, "inline": InlineExecutor(), "pool": pool}[kind]
        timer = Timer(tick_ms=tick_ms, wheel_size=wheel_size, executor=executor)
        timer.start()
        tasks = []
        together(*[lambda seed=seed: churn(timer, seed, 4000, tasks) for seed in range(4)])
        timer._check()
        long = [task for task in tasks if task.delay_ms == 30_000 and not task.done()]
        assert len(timer) >= len(long)
        for task in long:
            task.prevented += task.cancel()
        timer.close(cancel_pending=False)
        assert len(timer) == 0
        timer._check()
        assert {task.runs + task.prevented for task in tasks} == {1}
        stats = timer.stats()
        assert stats.fired == sum(task.runs for task in tasks)
        assert stats.cancelled == sum(task.prevented for task in tasks)
        assert stats.executor_backlog == 0


def test_one_task_added_and_cancelled_by_all():
    """Re-armed and cancelled by four threads while two advance: runs and cancels fit together."""
    timer = Timer(executor=InlineExecutor())
    task, added, stop = Counted(0.001), [], threading.Event()

    def pull(seed):
        rng = random.Random(seed)
        for _ in range(3000):
            if rng.random() < 0.6:
                timer.add(task)
                added.append(1)
            else:
                task.cancel()

    def drive():
        while not stop.is_set():
            timer.advance_clock(0.001)

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    together(*[lambda seed=seed: pull(seed) for seed in range(4)])
    stop.set()
    for driver in drivers:
        driver.join()
    timer._check()
    assert len(timer) in (0, 1)
    task.cancel()
    stats = timer.stats()
    assert (stats.pending, stats.executor_backlog) == (0, 0)
    assert stats.fired + stats.cancelled <= len(added)
    timer.close()


class CountsBatches(Timer):
    """Counts the batches of its drains, and sets `begun` after the first of them."""

    def __init__(self, clock):
        super().__init__(clock=clock)
        self.batches = 0
        self.begun = threading.Event()

    def _deliver_all(self):
        self.batches += 1
        self.begun.set()
        super()._deliver_all()


def test_add_does_not_wait_for_a_drain():
    """While many tasks come due at once, another thread can add between any two batches.

    No add waits for the whole drain, even on a busy machine. Benchmarks measure the longest add.
    """
    # That thread may stall just then, and add nothing: that it can, one drain of some shows.
    assert any(adds_during_a_drain() for _ in range(5)), "no add during the drain"


def adds_during_a_drain():
    """Return whether another thread added after more than ten batches, without a long wait."""
    clock = ManualClock()
    timer = CountsBatches(clock)
    # An hour away, over many buckets of higher levels: all of it must cascade.
    count = 1_000_000 if COMPILED else 300_000
    for i in range(count):
        timer.schedule(3600 + i % 977 / 100, int)
    clock.advance(7200)
    done, waits, batches = threading.Event(), [], set()

    def add():
        timer.begun.wait(60)
        # It does not sleep: on a busy machine it would not be woken before the drain has ended.
        while not done.is_set() and len(batches) <= 10:
            before = time.perf_counter()
            timer.schedule(10_000, int)
            waits.append(time.perf_counter() - before)
            if not done.is_set():
                batches.add(timer.batches)

    adder = threading.Thread(target=add)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)  # a quick drain would see too few switches
    try:
        adder.start()
        timer.advance_clock()
    finally:
        sys.setswitchinterval(interval)
        done.set()
    adder.join()
    timer._check()
    timer.close(timeout=0)
    timer._executor.join(60)  # a thread that ends later would disturb the next test's memory
    return len(batches) > 10 and max(waits) < 2


def test_memory_returns_when_all_are_cancelled():
    """60,000 far timers leave no memory behind once they are cancelled."""
    timer = Timer(clock=ManualClock(), executor=InlineExecutor())
    rng = random.Random(1)
    gc.collect()
    objects = len(gc.get_objects())
    tracemalloc.start()
    try:
        tasks = [timer.schedule(rng.uniform(3600, 10**6), int) for _ in range(60_000)]
        full, _ = tracemalloc.get_traced_memory()
        rng.shuffle(tasks)
        while tasks:
            assert tasks.pop().cancel()
        del tasks
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(timer) == 0
    assert full > 5_000_000
    assert left < full / 20 + THREADS_OWN
    assert len(gc.get_objects()) - objects < 5000
    assert timer.delay_to_next() is None
    assert len(timer._wheel_state.queue) == 0
    timer.close()


def test_memory_returns_when_all_have_fired():
    """A sleeping worker keeps no reference to the tasks that it ran."""
    # 30,000 tasks take 7 MB. A free-threaded Python frees large lists late, and has 64 kB a thread,
    # of which there are many on a busy machine.
    few = 2_000_000 if "t" in sys.abiflags else 500_000
    clock = ManualClock()
    timer = Timer(clock=clock)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(30_000):
            timer.schedule(1.001, int)
        clock.advance(2)
        timer.advance_clock()
        pause = threading.Event()
        while timer.stats().fired < 30_000:
            pause.wait(0.01)
        for _ in range(500):
            if tracemalloc.get_traced_memory()[0] - before < few:
                break
            pause.wait(0.01)
        left = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert left < few
    timer.close()
