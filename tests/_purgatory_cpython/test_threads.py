"""InterruptibleThread, InterruptibleEvent: interrupts at any place, and the context."""

import threading
from contextvars import ContextVar

from _purgatory_cpython import threads
from _purgatory_cpython.threads import InterruptibleEvent, InterruptibleThread, ThreadLocal
from tests.testing import interrupted_threads

FOLDERS = (threads.__file__,)


def test_an_interrupted_start(monkeypatch):
    """The interrupt is told as it is; a thread that was started runs."""
    interrupted_threads.check_start(
        lambda target: InterruptibleThread(target=target, daemon=True), FOLDERS, monkeypatch
    )


def test_an_interrupted_look():
    """A thread that runs is not taken for one that has ended."""
    interrupted_threads.check_alive(
        lambda target: InterruptibleThread(target=target, daemon=True), FOLDERS
    )


def test_an_interrupted_wait():
    """It takes nothing from other threads that wait."""
    interrupted_threads.check_wait(InterruptibleEvent, FOLDERS)


def test_an_interrupted_set():
    """No thread goes on waiting for an event that is set."""
    interrupted_threads.check_set(InterruptibleEvent, FOLDERS)


def test_it_is_an_event():
    """Set, cleared, and waited for with a timeout and without."""
    interrupted_threads.check_event(InterruptibleEvent)


def test_a_thread_does_not_inherit_a_context():
    """No value of the starting thread is seen, not even where Python copies its context."""
    variable = ContextVar("request", default="none")
    variable.set("17")
    seen = []
    thread = InterruptibleThread(target=lambda: seen.append(variable.get()))
    thread.start()
    thread.join()
    assert seen == ["none"]


class TestThreadLocal:
    def test_each_thread_has_its_own(self):
        """It is made at the first access, once."""
        local, found = ThreadLocal(list), []
        thread = threading.Thread(target=lambda: found.extend([local.value, local.value]))
        thread.start()
        thread.join()
        assert found[0] is found[1]
        assert local.value is not found[0]
        assert local.value is local.value

    def test_a_finalizer_that_needs_the_value_while_it_is_made(self):
        """The finalizer makes it, and the thread keeps that."""

        def make():
            if not found:
                found.append(None)
                found[0] = local.value
            return object()

        local, found = ThreadLocal(make), []
        assert local.value is found[0]
