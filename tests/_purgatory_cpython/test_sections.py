"""SectionLock and what else stands in for the interpreter lock; elsewhere what replaces them."""

import gc
import os
import signal
import threading

import pytest

from _purgatory_cpython.atomicity import ATOMIC_SECTIONS, COMPILED, LOCKED_SECTIONS
from _purgatory_cpython.sections import (
    enter_section,
    keep_for_ever,
    leave_section,
    new_section_lock,
    part_of,
    shared_lock,
    sixteenth_of,
    thread_dict,
    thread_number,
)
from timingwheel import Timer

HANG = 30
THREADS = 4
ROUNDS = 5_000

locked_only = pytest.mark.skipif(not LOCKED_SECTIONS, reason="compiled without the GIL only")


def run_threads(work):
    """Run `work` in several threads to its end."""
    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive()


def test_sections_are_atomic_or_locked_if_compiled():
    """One of the two, never both; interpreted neither."""
    assert ATOMIC_SECTIONS + LOCKED_SECTIONS == COMPILED


@pytest.mark.parametrize(
    "make", [new_section_lock, lambda: shared_lock(Timer)], ids=["new", "shared"]
)
class TestLock:
    """What `new_section_lock` and `shared_lock` return."""

    def test_one_thread_at_a_time_is_inside(self, make):
        """No increment is lost."""
        lock, count = make(), 0

        def work():
            nonlocal count
            for _ in range(ROUNDS):
                with lock:
                    count += 1

        run_threads(work)
        assert count == THREADS * ROUNDS

    def test_it_is_reentrant(self, make):
        """A thread may take it again, and leaves it as often."""
        lock = make()
        with lock:
            assert lock.acquire()
            assert lock._is_owned()
            lock.release()
            assert lock._is_owned()
        assert not lock._is_owned()

    def test_only_its_owner_releases_it(self, make):
        """A thread without it gets an error."""
        with pytest.raises(RuntimeError):
            make().release()

    def test_a_thread_that_waits_holds_up_no_collection(self, make):
        """The collector stops all threads; one that waits for a lock counts as stopped."""
        lock = make()
        ready, got = threading.Event(), threading.Event()

        def work():
            ready.set()
            with lock:
                got.set()

        thread = threading.Thread(target=work, daemon=True)
        with lock:
            thread.start()
            assert ready.wait(HANG)
            for _ in range(20):
                gc.collect()
            assert not got.is_set()
        assert got.wait(HANG)
        thread.join(HANG)


@locked_only
class TestLocked:
    """What only compiled code on a free-threaded Python uses."""

    def test_sections_exclude_each_other(self):
        """A section is re-entrant, and no increment in one is lost."""
        lock, count = new_section_lock(), 0

        def work():
            nonlocal count
            for _ in range(ROUNDS):
                enter_section(lock)
                enter_section(lock)
                count += 1
                leave_section(lock)
                leave_section(lock)

        run_threads(work)
        assert count == THREADS * ROUNDS

    def test_only_locks_are_entered(self):
        """Anything else is a TypeError, not a crash; to leave what is not held a RuntimeError."""
        for function in (enter_section, leave_section):
            with pytest.raises(TypeError):
                function(object())
        with pytest.raises(RuntimeError):
            leave_section(new_section_lock())

    def test_threads_have_numbers(self):
        """The same one at each call, and another thread another one."""
        found = []
        run_threads(lambda: found.append((thread_number(), thread_number())))
        assert all(first == second for first, second in found)
        assert len({first for first, _ in found}) == THREADS

    def test_threads_choose_from_different_shared_locks(self):
        """The objects of two threads have no lock in common, wherever their memory is."""
        things = [object() for _ in range(500)]
        found = []
        run_threads(lambda: found.append({id(shared_lock(thing)) for thing in things}))
        assert len(set().union(*found)) == sum(map(len, found))
        assert all(len(locks) > 20 for locks in found)

    def test_keys_are_spread_by_their_hash(self):
        """Equal keys have the same number; a sixteenth of many has each, whatever their step."""
        assert sixteenth_of(1) == sixteenth_of(1.0) == sixteenth_of(True)
        for step in (1, 2, 16, 4096, 10**9):
            numbers = [sixteenth_of(number * step) for number in range(16_000)]
            assert all(800 < numbers.count(number) < 1200 for number in range(16))

    def test_the_part_of_a_key(self):
        """It is the one of that number; anything but 16 parts and a key is a TypeError."""
        parts = tuple(object() for _ in range(16))
        for key in ("a", -1, ("a", 1), 2**80):
            assert part_of(parts, key) is parts[sixteenth_of(key)]
        for arguments in ((parts[1:], 1), (list(parts), 1), (parts, []), (parts,), ()):
            with pytest.raises(TypeError):
                part_of(*arguments)

    def test_each_thread_has_a_dict_of_its_own(self):
        """The same one at each call, and no other thread's."""
        found = []
        run_threads(lambda: found.append((thread_dict(), thread_dict())))
        assert all(first is second for first, second in found)
        assert len({id(first) for first, _ in found}) == THREADS


def test_what_is_kept_for_ever_may_be_used_as_before():
    """It is not freed, and marking it twice is harmless."""
    thing = object()
    keep_for_ever(thing)
    keep_for_ever(thing)
    assert [thing] * 3 == [thing, thing, thing]


@locked_only
def test_a_forked_child_finds_no_shared_lock_taken():
    """A thread was in a section when another one forked: it does not exist in the child."""
    lock, inside, leave = shared_lock(Timer), threading.Event(), threading.Event()

    def hold():
        with lock:
            inside.set()
            leave.wait(HANG)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(HANG)
    child = os.fork()
    if child == 0:
        signal.alarm(HANG)  # ends it if it waits for the lock
        with lock:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join(HANG)
    assert status == 0
