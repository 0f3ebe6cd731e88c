"""LaneLock: locks of lanes inside a common one; exclusion, fairness, re-entrance, poisoning."""

import threading

import pytest

from _purgatory_cpython.locks import HotCondition
from timingwheel import lanes as lanes_module
from timingwheel.lanes import LaneLock
from timingwheel.lowlevel import COMPILED
from timingwheel.rwlock import ReadWriteLock, is_owned

HANG_S = 60


@pytest.fixture
def common():
    """The lock that two lanes have in common."""
    return ReadWriteLock()


@pytest.fixture
def lanes(common):
    """The locks of two lanes."""
    return LaneLock(common), LaneLock(common)


def in_thread(work):
    """Run something in a thread to its end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(HANG_S)
    assert not thread.is_alive()


def is_free(lock):
    """Whether another thread can take the write side at once."""
    free = []
    in_thread(lambda: free.append(lock.__enter__()) or lock.release_write())
    return free == [None]


def test_each_side_excludes_both(lanes):
    """Threads that count under either side of either lane lose no count."""
    total = [0]

    def count(side):
        for _ in range(2000):
            with side():
                seen = total[0]
                total[0] = seen + 1

    sides = [lanes[0].reading, lanes[1].reading, lambda: lanes[0], lambda: lanes[1]]
    threads = [threading.Thread(target=count, args=[side], daemon=True) for side in sides]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert total == [8000]


@pytest.mark.skipif(COMPILED, reason="compiled code has bound the calls")
@pytest.mark.parametrize("shortages", range(3))
def test_the_write_side_is_left_in_a_shortage(lanes, common, monkeypatch, shortages):
    """It takes a few bytes: it is tried until it has these."""
    left = [MemoryError] * shortages

    def look(lock):
        if left:
            raise left.pop()
        return is_owned(lock)

    monkeypatch.setattr(lanes_module, "is_owned", look)
    with lanes[0]:
        assert common.is_inside()
    assert not left
    assert all(map(is_free, (*lanes, common)))


def test_the_thread_inside(lanes, common):
    """A thread with a lane's lock, or with the common lock, is inside all lanes."""
    assert not lanes[1].is_inside()
    with lanes[0].reading():
        assert lanes[0].is_inside()
        assert lanes[1].is_inside()
    with common.reading():
        assert lanes[1].is_inside()


def test_a_drain_of_one_lane_lets_the_queued_readers_of_another_through(lanes, common):
    """A reader that queued during one write is through before the next one begins."""
    first, second = lanes
    notes, queued = [], threading.Event()

    class Turnstile(HotCondition):
        def wait(self, timeout=None):
            queued.set()
            return super().wait(timeout)

    def read():
        with second.reading():
            notes.append("reader")

    reader = threading.Thread(target=read, daemon=True)
    common._turnstile = Turnstile()
    with first:
        reader.start()
        assert queued.wait(HANG_S)
    with first:
        assert common._queued == 0
    reader.join(HANG_S)
    assert notes == ["reader"]


def test_a_thread_inside_one_lane_may_read_all(lanes):
    """As a finalizer does that runs while its thread has either side."""
    first, second = lanes
    for side in (first, first.reading()):
        with side, second.reading(), first.reading(), second.reading():
            pass
        assert is_free(first)
        assert is_free(second)


def test_threads_that_read_two_lanes_in_either_order_are_not_stuck(lanes):
    """No thread waits for a lane that another one has while it waits for this one's."""
    done = []

    def read(first, second):
        for _ in range(2000):
            with first.reading(), second.reading():
                pass
        done.append(first)

    threads = [
        threading.Thread(target=read, args=pair, daemon=True) for pair in (lanes, lanes[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
    assert len(done) == 2


def test_a_reader_does_not_become_writer(lanes):
    """A thread that has any lane cannot take the write side of one: RuntimeError."""
    first, second = lanes
    for side in (first, first.reading()):
        with side, pytest.raises(RuntimeError, match="already"), second:
            pass
    assert is_free(second)


def test_a_writer_that_fails_leaves_all_free(lanes, common):
    """An exception inside propagates; the lane and the common lock are released."""
    first, second = lanes
    with pytest.raises(ZeroDivisionError), first:
        _ = 1 / 0
    assert is_free(second)
    assert not is_owned(common._lock)
    first.release_write()  # does nothing any more
    assert is_free(first)


def test_poison(lanes):
    """Every use of a poisoned lane raises the given error; the other one is as before."""
    first, second = lanes
    first.poison(LookupError("gone"))
    for use in (first.check_usable, first.reading, first.__enter__):
        with pytest.raises(LookupError, match="gone"):
            use()
    assert is_free(second)
