"""new_lock: an exception from a signal handler leaves it free, wherever it comes."""

import signal

import pytest

from mq._cpython.atomicity import COMPILED
from mq._cpython.interruptible_lock import new_hot_lock, new_lock

INTERRUPTS = 300
# Compiled, the hot one is for compiled code, and here it is interpreted code that takes it.
LOCKS = [new_lock] if COMPILED else [new_lock, new_hot_lock]


class Interrupted(Exception):
    """What the signal handler raises."""


def interrupt(*_args):
    raise Interrupted


def take_until_interrupted(lock):
    """Take and leave the lock until a signal comes."""
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-5)
        while True:
            with lock:
                pass
    except Interrupted:
        pass


def is_free(lock):
    if hasattr(lock, "_is_owned"):
        return not lock._is_owned()
    return not lock.locked()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no interval timer")
@pytest.mark.parametrize("new", LOCKS)
def test_an_interrupt_leaves_it_free(new):
    """Whether it comes before the lock is taken, after that or in the body, the lock is left."""
    lock = new()
    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(INTERRUPTS):
            take_until_interrupted(lock)
            assert is_free(lock)
    finally:
        signal.signal(signal.SIGALRM, former)
