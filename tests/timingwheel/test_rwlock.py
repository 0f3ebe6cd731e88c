"""ReadWriteLock: exclusion, fairness in both directions, re-entry, refusal."""

import threading

import pytest

from timingwheel.rwlock import ReadWriteLock


class Party:
    """Threads that are joined at the end, with what they noted."""

    def __init__(self):
        self.notes = []
        self.threads = []

    def start(self, target):
        """Run something in a thread."""
        thread = threading.Thread(target=target, daemon=True)
        self.threads.append(thread)
        thread.start()

    def end(self):
        """Wait for all of them."""
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.fixture
def party():
    """A party that ends."""
    party = Party()
    yield party
    party.end()


def until(condition):
    """Wait for what another thread is about to do."""
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("waited in vain")


def test_everybody_excludes_everybody(party):
    """Counting under either side loses no count."""
    lock, total = ReadWriteLock(), [0]

    def count(side):
        for _ in range(3000):
            with side():
                seen = total[0]
                total[0] = seen + 1

    for side in (lock.reading, lock.reading, lambda: lock, lambda: lock):
        party.start(lambda side=side: count(side))
    party.end()
    assert total == [12_000]
    assert repr(lock) == "<ReadWriteLock no writer, 0 readers queued>"


def test_a_waiting_writer_goes_before_new_readers(party):
    """Readers that come after a writer has asked queue behind it."""
    lock = ReadWriteLock()

    def write():
        with lock:
            party.notes.append("writer")

    def read():
        with lock.reading():
            party.notes.append("reader")

    with lock.reading():
        party.start(write)
        until(lambda: lock._writer)
        party.start(read)
        until(lambda: lock._queued)
    party.end()
    assert party.notes == ["writer", "reader"]


def test_a_writer_that_comes_back_lets_the_queue_through(party):
    """Who queued during one write passes the gate before the next write begins."""
    lock = ReadWriteLock()
    with lock:
        party.start(lambda: lock.reading() and party.notes.append("reader"))
        until(lambda: lock._queued)
    with lock:
        assert lock._queued == 0
        party.notes.append("writer again")
    party.end()
    assert sorted(party.notes) == ["reader", "writer again"]


def test_reading_again_inside(party):
    """Who has either side may read, also while a writer waits."""
    lock = ReadWriteLock()
    with lock, lock.reading(), lock.reading():
        pass
    with lock.reading():
        party.start(lambda: lock.__enter__() or lock.release_write())
        until(lambda: lock._writer)
        with lock.reading():
            party.notes.append("inside")
    assert party.notes == ["inside"]


def test_a_reader_does_not_become_writer():
    """That would wait for itself; it is refused."""
    lock = ReadWriteLock()
    with lock.reading(), pytest.raises(RuntimeError, match="already"), lock:
        pass
    with lock, pytest.raises(RuntimeError, match="already"), lock:
        pass
    with lock:
        pass


def test_a_finalizer_at_the_gate(party):
    """What the collector runs in a thread on its way through the gate may read, too."""
    lock, wait = ReadWriteLock(), None

    def wait_with_finalizer(timeout=None):
        with lock.reading():
            party.notes.append("finalizer")
        return wait(timeout)

    def read():
        with lock.reading():
            party.notes.append("reader")

    with lock:
        wait, lock._state_changed.wait = lock._state_changed.wait, wait_with_finalizer
        party.start(read)
        until(lambda: lock._queued)
    party.end()
    assert party.notes[0] == "finalizer"
    assert party.notes[-1] == "reader"


def test_abandon():
    """Leaving twice, or without having entered, does nothing."""
    lock = ReadWriteLock()
    lock.release_write()
    with lock:
        lock.release_write()
        with lock.reading():
            lock.release_write()
    with lock:
        pass


def test_a_writer_that_fails_leaves_the_lock_free():
    """An exception inside is passed on, and the lock is left."""
    lock = ReadWriteLock()
    with pytest.raises(ZeroDivisionError), lock:
        _ = 1 / 0
    with lock:
        pass


def test_refusal():
    """Once it refuses, every use raises the error given."""
    lock = ReadWriteLock()
    lock.check_usable()
    lock.poison(LookupError("gone"))
    for use in (lock.check_usable, lock.reading, lock.__enter__):
        with pytest.raises(LookupError, match="gone"):
            use()
