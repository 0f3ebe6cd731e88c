"""Locks and conditions: an interrupt at any place leaves them free, and no notification is lost."""

import signal
import threading

import pytest

from _purgatory_cpython import locks
from _purgatory_cpython.atomicity import COMPILED
from _purgatory_cpython.locks import (
    HotCondition,
    InterruptibleCondition,
    new_condition,
    new_hot_condition,
    new_hot_lock,
    new_lock,
    new_rlock,
)
from tests.testing.interrupts import at_every_place, interrupted_at
from tests.testing.leaks import HANG_TIMEOUT_S

FILES = (threading.__file__, locks.__file__)
INTERRUPTS = 300
# Compiled, the hot one is for compiled code, and here it is interpreted code that takes it.
LOCKS = [new_lock, new_rlock] if COMPILED else [new_lock, new_hot_lock, new_rlock]

both = pytest.mark.parametrize("make", [new_condition, new_hot_condition])
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


def is_free(lock):
    """Whether no thread has it."""
    return not (lock._is_owned() if hasattr(lock, "_is_owned") else lock.locked())


@needs_signals
@pytest.mark.parametrize("new", LOCKS)
@pytest.mark.parametrize("depth", [1, 2])
def test_an_interrupt_leaves_it_free(new, depth):
    """Whether it comes before the lock is taken, after that or in the body, the lock is left."""
    lock = new()
    if depth > 1 and not hasattr(lock, "_is_owned"):
        pytest.skip("not re-entrant")
    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(INTERRUPTS):
            take_until_interrupted(lock, depth)
            assert is_free(lock)
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


def wait(condition, timeout=0.0):
    """Wait, as every program does."""
    with condition:
        return condition.wait(timeout)


def notify_all(condition):
    """Wake all."""
    with condition:
        condition.notify_all()


class Waiting:
    """A thread that waits for a condition."""

    def __init__(self, condition):
        self.condition = condition
        self.has_begun = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.has_begun.wait(HANG_TIMEOUT_S)
        with condition:  # it has left the lock: it waits
            pass

    def run(self):
        """Wait."""
        with self.condition:
            self.has_begun.set()
            self.condition.wait()

    def check_ended(self):
        """Assert that it was woken."""
        self.thread.join(HANG_TIMEOUT_S)
        assert not self.thread.is_alive()


def test_an_interrupted_wait():
    """KeyboardInterrupt comes out, the lock is free, and no thread counts as waiting."""

    def scene(at):
        condition = InterruptibleCondition()
        interrupter = interrupted_at(at, lambda: wait(condition), FILES)
        assert not condition._is_owned()
        assert not condition._waiters
        return interrupter

    at_every_place(scene, 7)


def test_an_interrupted_wait_inside_the_lock():
    """However often it was taken, it is taken as often afterwards."""

    def scene(at):
        condition = InterruptibleCondition()
        with condition, condition:
            interrupter = interrupted_at(at, lambda: condition.wait(0), FILES)
            assert condition._is_owned()
        assert not condition._is_owned()
        return interrupter

    at_every_place(scene, 7)


def test_a_notification_of_an_interrupted_thread_goes_to_the_next():
    """The one that was notified is interrupted: another one wakes up."""

    def scene(at):
        condition = InterruptibleCondition()
        next_one = []
        notifier = threading.Thread(target=notify_one_of_two, args=(condition, next_one))
        interrupter = interrupted_at(at, lambda: wait_first(condition, notifier), FILES[1:])
        if notifier.ident is not None:
            notifier.join(HANG_TIMEOUT_S)
        if not interrupter.fired:
            notify_all(condition)
        for each in next_one:
            each.check_ended()
        return interrupter

    at_every_place(scene, 7)


def wait_first(condition, notifier):
    """Wait, and let another thread wait then, and notify the first one."""
    with condition:
        notifier.start()
        condition.wait(HANG_TIMEOUT_S)


def notify_one_of_two(condition, next_one):
    """Called while the first one has the lock, or waits."""
    next_one.append(Waiting(condition))
    with condition:
        condition.notify()


def test_an_interrupted_notification():
    """Interrupted after it has begun, it has notified all."""

    def scene(at):
        condition = InterruptibleCondition()
        waiting = [Waiting(condition) for _ in range(2)]
        with condition:
            interrupter = interrupted_at(at, condition.notify_all, FILES)
        if at == 1:
            assert len(condition._waiters) == 2, "nothing was done"
            notify_all(condition)
        for each in waiting:
            each.check_ended()
        return interrupter

    at_every_place(scene, 2)


@both
def test_it_is_a_condition(make):
    """It wakes one thread or all, and says whether a wait was ended so."""
    condition = make()
    assert not wait(condition)
    assert not wait(condition, -1)
    assert not wait(condition, 0.001)
    first, second, third = (Waiting(condition) for _ in range(3))
    with condition:
        condition.notify()
    first.check_ended()
    assert second.thread.is_alive()
    assert third.thread.is_alive()
    notify_all(condition)
    second.check_ended()
    third.check_ended()
    with condition:
        assert condition.wait_for(lambda: 7) == 7
        assert not condition.wait_for(lambda: 0, 0.001)


@both
@pytest.mark.parametrize("name", ["wait", "notify", "notify_all"])
def test_the_lock_must_be_held(make, name):
    """RuntimeError, as of `threading.Condition`."""
    with pytest.raises(RuntimeError, match="un-acquired lock"):
        getattr(make(), name)()


def test_compiled_code_has_one_that_is_entered_by_a_function_of_c():
    """So that it costs as little as can be."""
    assert isinstance(new_hot_condition(), HotCondition)
