"""InterruptibleThread, InterruptibleEvent: an interrupt at any place leaves them in order."""

from _purgatory_cpython import threads
from _purgatory_cpython.threads import InterruptibleEvent, InterruptibleThread
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
