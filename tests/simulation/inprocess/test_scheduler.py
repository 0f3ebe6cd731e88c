"""The scheduler: one thread at a time, virtual time, deadlocks found."""

import _thread
import random
import threading
import time

import pytest

from tests.simulation.inprocess.scheduler import Scheduler
from tests.simulation.inprocess.substitutes import substituted


def run(program, seed=1):
    """Run a program as the first thread of a world; returns the scheduler."""
    scheduler = Scheduler(random.Random(seed), with_history=True)
    thread = threading.Thread(target=program, args=(scheduler,), name="main", daemon=True)
    with substituted(scheduler):
        scheduler.run(thread)
    return scheduler


def threads(*programs):
    """Start a thread for each program, and wait for all."""
    started = [threading.Thread(target=program, daemon=True) for program in programs]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def test_time_is_virtual():
    """Sleeps take no real time, and threads sleep at the same time."""
    times = []

    def main(scheduler):
        before_s = time.monotonic()
        threads(lambda: time.sleep(1000), lambda: time.sleep(500))
        times.append(time.monotonic() - before_s)

    started_s = time.monotonic()
    assert run(main).failure == ""
    assert 1000 <= times[0] < 1001
    assert time.monotonic() - started_s < 60


@pytest.mark.parametrize("seed", range(10))
def test_a_lock_keeps_others_out(seed):
    """Of plain and re-entrant ones, and of conditions."""
    inside, most = [], []

    def main(scheduler):
        locks = [threading.Lock(), threading.RLock(), threading.Condition()]

        def enter():
            for lock in locks:
                with lock:
                    assert getattr(lock, "_lock", lock).locked()  # the first is a condition's
                    inside.append(lock)
                    scheduler.sleep(0.001)
                    most.append(inside.count(lock))
                    inside.remove(lock)

        threads(enter, enter, enter)

    assert run(main, seed).failure == ""
    assert set(most) == {1}


@pytest.mark.parametrize("seed", range(10))
def test_waits_end(seed):
    """By a notification, by a timeout, and by the end of a thread."""
    said = []

    def main(scheduler):
        del scheduler
        event, never = threading.Event(), threading.Event()
        threads(lambda: said.append(event.wait(10)), event.set)
        said.append(never.wait(0.5))
        thread = threading.Thread(target=time.sleep, args=(5,), daemon=True)
        thread.start()
        thread.join(1)
        said.append(thread.is_alive())
        thread.join()
        said.append(thread.is_alive())

    assert run(main, seed).failure == ""
    assert said == [True, False, True, False]


def test_a_deadlock_is_found():
    """Two threads that take two locks in different orders wait for each other in some world."""

    def main(scheduler):
        one, other = threading.Lock(), threading.Lock()

        def take(first, second):
            with first:
                scheduler.step()
                with second:
                    pass

        threads(lambda: take(one, other), lambda: take(other, one))

    failures = [run(main, seed).failure for seed in range(40)]
    assert "" in failures
    assert any(failure.startswith("deadlock: main at") for failure in failures)


def test_an_error_of_a_thread_ends_the_world():
    """It is told, with its thread."""

    def main(scheduler):
        raise ValueError(scheduler.now_ns)

    assert run(main).failure.startswith("thread main ended by ValueError(")


def test_interleavings_differ():
    """Another seed is another order."""

    def main(scheduler):
        def note(name):
            for _ in range(5):
                scheduler.step(3)
                order.append(name)

        threads(*(lambda name=name: note(name) for name in "abc"))

    orders = set()
    for seed in range(20):
        order = []
        assert run(main, seed).failure == ""
        orders.add("".join(order))
    assert len(orders) > 10


def test_other_threads_are_left_alone():
    """A thread that is not of the world gets real locks while the world runs."""
    kinds = []
    go, done = _thread.allocate_lock(), _thread.allocate_lock()
    go.acquire()
    done.acquire()

    def main(scheduler):
        scheduler.sleep(1)
        go.release()
        done.acquire()

    def work():
        go.acquire()
        kinds.append(type(threading.Lock()))
        done.release()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert run(main).failure == ""
    thread.join()
    assert kinds == [type(go)]
