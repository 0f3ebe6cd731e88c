"""ReadWriteLock: exclusion, fairness in both directions, re-entrance, poisoning."""

import threading

import pytest

from _purgatory_cpython.locks import HotCondition
from timingwheel.rwlock import ReadWriteLock


class Threads:
    """Threads that are joined at the end, with the notes that they took."""

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
def threads():
    """Threads that are joined when the test ends."""
    threads = Threads()
    yield threads
    threads.end()


def until(condition):
    """Wait until another thread has made a condition true."""
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("the condition did not become true")


def test_each_side_excludes_both(threads):
    """Threads that count under either side lose no count."""
    lock, total = ReadWriteLock(), [0]

    def count(side):
        for _ in range(3000):
            with side():
                seen = total[0]
                total[0] = seen + 1

    for side in (lock.reading, lock.reading, lambda: lock, lambda: lock):
        threads.start(lambda side=side: count(side))
    threads.end()
    assert total == [12_000]
    assert repr(lock) == "<ReadWriteLock no writer, 0 readers queued>"


def test_a_waiting_writer_goes_before_new_readers(threads):
    """New readers queue behind a waiting writer."""
    lock = ReadWriteLock()

    def write():
        with lock:
            threads.notes.append("writer")

    def read():
        with lock.reading():
            threads.notes.append("reader")

    with lock.reading():
        threads.start(write)
        until(lambda: lock._writer)
        threads.start(read)
        until(lambda: lock._queued)
    threads.end()
    assert threads.notes == ["writer", "reader"]


def test_a_returning_writer_lets_the_queued_readers_through(threads):
    """A reader that queued during one write is through before the next one begins."""
    lock = ReadWriteLock()
    with lock:
        threads.start(lambda: lock.reading() and threads.notes.append("reader"))
        until(lambda: lock._queued)
    with lock:
        assert lock._queued == 0
        threads.notes.append("writer again")
    threads.end()
    assert sorted(threads.notes) == ["reader", "writer again"]


def test_the_last_queued_reader_wakes_the_writer(threads):
    """A writer that waits for readers in the queue, and for no other writer."""
    lock = ReadWriteLock()
    lock._queued = 1  # a reader that has not come through
    threads.start(lambda: lock.__enter__() or threads.notes.append("writer"))
    until(lambda: lock._turnstile._waiters)
    lock._queued = 0
    assert threads.notes == []
    lock._queue_behind_writer()
    threads.end()
    assert threads.notes == ["writer"]


def test_reading_again_inside(threads):
    """A thread that has either side may read, also while a writer waits."""
    lock = ReadWriteLock()
    with lock, lock.reading(), lock.reading():
        pass
    with lock.reading():
        threads.start(lambda: lock.__enter__() or lock.release_write())
        until(lambda: lock._writer)
        with lock.reading():
            threads.notes.append("inside")
    assert threads.notes == ["inside"]


def test_a_reader_does_not_become_writer():
    """A thread that has either side cannot take the write side: RuntimeError."""
    lock = ReadWriteLock()
    with lock.reading(), pytest.raises(RuntimeError, match="already"), lock:
        pass
    with lock, pytest.raises(RuntimeError, match="already"), lock:
        pass
    with lock:
        pass


def test_a_finalizer_in_the_turnstile(threads):
    """A finalizer that runs in a queueing thread may read, and does not queue."""
    lock = ReadWriteLock()

    class Turnstile(HotCondition):
        def wait(self, timeout=None):
            with lock.reading():
                threads.notes.append("finalizer")
            return super().wait(timeout)

    def read():
        with lock.reading():
            threads.notes.append("reader")

    lock._turnstile = Turnstile()
    with lock:
        threads.start(read)
        until(lambda: lock._queued)
    threads.end()
    assert threads.notes[0] == "finalizer"
    assert threads.notes[-1] == "reader"


def test_the_thread_inside(threads):
    """A thread is inside while it has a side or waits for one, and no other thread is."""
    lock = ReadWriteLock()
    assert not lock.is_inside()
    with lock.reading():
        assert lock.is_inside()
        threads.start(lambda: threads.notes.append(lock.is_inside()))
        threads.end()
    with lock:
        assert lock.is_inside()
    with lock._turnstile:
        assert lock.is_inside()
    assert not lock.is_inside()
    assert threads.notes == [False]


def test_a_signal_handler_in_a_queueing_reader(threads):
    """The turnstile is free while the thread waits; the thread is inside all the same."""
    lock = ReadWriteLock()

    class Turnstile(HotCondition):
        def wait(self, timeout=None):
            state = self._release_save()
            threads.notes.append(lock.is_inside())
            self._acquire_restore(state)
            return super().wait(timeout)

    def read():
        with lock.reading():
            pass
        threads.notes.append(lock.is_inside())

    lock._turnstile = Turnstile()
    with lock:
        threads.start(read)
        until(lambda: threads.notes)
    threads.end()
    assert threads.notes[0] is True
    assert threads.notes[-1] is False


def test_a_signal_handler_in_a_waiting_writer(threads):
    """A writer waits for the last reader to leave; its handler may read, and waits for none."""
    lock = ReadWriteLock()

    def handler():
        lock._writer = threading.get_ident()
        threads.notes.append(lock.is_inside())
        with lock.reading():
            threads.notes.append("read")
        lock.release_write()

    threads.start(handler)
    threads.end()
    assert threads.notes == [True, "read"]
    assert not lock.is_inside()


def test_release_write():
    """release_write does nothing in a thread that does not have the write side."""
    lock = ReadWriteLock()
    lock.release_write()
    with lock:
        lock.release_write()
        assert not lock.is_inside()
        with lock.reading():
            lock.release_write()
            assert lock.is_inside()
    with lock:
        assert lock.is_inside()
    assert not lock.is_inside()


def test_a_writer_that_fails_leaves_the_lock_free():
    """An exception inside propagates, and the lock is released."""
    lock = ReadWriteLock()
    with pytest.raises(ZeroDivisionError), lock:
        _ = 1 / 0
    with lock:
        pass


def test_poison():
    """Every use of a poisoned lock raises the given error."""
    lock = ReadWriteLock()
    lock.check_usable()
    lock.poison(LookupError("gone"))
    for use in (lock.check_usable, lock.reading, lock.__enter__):
        with pytest.raises(LookupError, match="gone"):
            use()
