"""MailboxReader: waiting for a thread, which may end instead."""

import gc
import threading
import weakref

import pytest

from purgatory.bus.loop import MailboxReader
from tests.testing.purgatory_harness import HANG, in_thread


@pytest.fixture
def reader():
    return MailboxReader()


def reading(reader):
    """Start a thread that enters and then lives until the event that is returned with it."""
    entered, end = threading.Event(), threading.Event()

    def read():
        reader.enter()
        entered.set()
        end.wait(HANG)

    thread = threading.Thread(target=read)
    thread.start()
    assert entered.wait(HANG)
    return thread, end


class TestWaiting:
    def test_until_the_event_is_set(self, reader):
        """The event ends the wait while the reader goes on."""
        thread, end = reading(reader)
        event = threading.Event()
        threading.Timer(0, event.set).start()
        assert reader.wait_unless_ended(event, HANG) is True
        end.set()
        thread.join()

    def test_until_the_timeout(self, reader):
        """A timeout is not taken for the reader's end."""
        thread, end = reading(reader)
        assert reader.wait_unless_ended(threading.Event(), 0.001) is True
        end.set()
        thread.join()

    def test_until_the_reader_ends(self, reader):
        """The end of the thread ends the wait."""
        thread, end = reading(reader)
        threading.Timer(0, end.set).start()
        assert reader.wait_unless_ended(threading.Event(), HANG) is False
        thread.join()

    def test_for_a_reader_that_has_ended(self, reader):
        """There is nothing to wait for."""
        in_thread(lambda: reader.enter() or True)
        event = threading.Event()
        assert reader.wait_unless_ended(event, HANG) is False
        assert not event.is_set()


class TestReader:
    def test_is_the_thread_that_entered_last(self, reader):
        """A new reader takes over; the end of the former one is of no interest."""
        thread, end = reading(reader)
        assert not reader.is_here()
        reader.enter()
        assert reader.is_here()
        end.set()
        thread.join()
        assert reader.wait_unless_ended(threading.Event(), 0.001) is True

    def test_is_freed_while_its_thread_lives(self, reader):
        """The mark in the thread's local storage does not keep it alive."""
        gc.disable()
        try:
            reader = MailboxReader()
            reader.enter()
            freed = weakref.ref(reader)
            del reader
            assert freed() is None
        finally:
            gc.enable()
