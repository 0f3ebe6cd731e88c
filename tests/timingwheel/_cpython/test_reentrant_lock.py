"""new_rlock: an exception from a signal handler leaves it free, wherever it comes."""

import signal
import threading

import pytest

from timingwheel._cpython.reentrant_lock import new_rlock

INTERRUPTS = 300

needs_signals = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="Windows has no interval timer"
)


class Interrupted(Exception):
    """What the signal handler raises."""


def interrupt(*_args):
    raise Interrupted


def take_until_interrupted(lock, depth):
    """Take and leave the lock, to that depth, until a signal comes."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5)
        while True:
            with lock:
                if depth > 1:
                    with lock:
                        depth += 0
    except Interrupted:
        pass


@needs_signals
@pytest.mark.parametrize("depth", [1, 2])
def test_an_interrupt_leaves_it_free(depth):
    """Whether it comes before the lock is taken, after that or in the body, the lock is left."""
    lock = new_rlock()
    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(INTERRUPTS):
            take_until_interrupted(lock, depth)
            assert not lock._is_owned()
    finally:
        signal.signal(signal.SIGALRM, former)


def test_it_is_a_reentrant_lock():
    """A thread may take it again; another one gets it when it was left as often."""
    lock = new_rlock()
    got = []
    with lock, lock:
        thread = threading.Thread(target=lambda: got.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
    assert got == [False]
    assert not lock._is_owned()
    assert lock.acquire(timeout=1)
    lock.release()


def test_a_condition_may_be_built_on_it():
    """`threading.Condition` finds what it needs of an RLock."""
    lock = new_rlock()
    changed = threading.Condition(lock)
    with lock, lock:
        changed.notify_all()
        assert not changed.wait(timeout=0)
        assert lock._is_owned()
    assert not lock._is_owned()
