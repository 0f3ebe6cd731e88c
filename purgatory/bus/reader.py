"""MailboxReader: the thread that reads a mailbox, and the threads that wait for it.

A waiting thread sleeps until the reader has set its event or has ended, in whatever way: it need
not look now and then. The end of a thread is seen by a mark in its local storage, which CPython
drops together with the thread.
"""

import threading
import weakref
from functools import partial


class _Mark:
    """Lives as long as the thread that it was made for."""


class MailboxReader:
    """The thread that called `enter` last. Any thread waits for it."""

    def __init__(self) -> None:
        self._ident = 0
        self._ended = False
        self._waiting: dict[threading.Event, None] = {}  # in order, as in `WorkerPool`
        self._of_thread = threading.local()
        self._mark: weakref.ref[_Mark] | None = None

    def enter(self) -> None:
        """Make the calling thread the reader."""
        ident = threading.get_ident()
        if self._ident == ident and not self._ended:
            return
        mark = self._of_thread.mark = _Mark()
        # A weak reference, or the callback and this object would be a cycle.
        self._mark = weakref.ref(mark, partial(_note_end, weakref.ref(self)))
        self._ident = ident
        self._ended = False

    def is_here(self) -> bool:
        """Whether the calling thread is the reader."""
        return self._ident == threading.get_ident()

    def wait_unless_ended(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait for an event that the reader sets. False if the reader has ended."""
        self._waiting[event] = None
        try:
            # Added before the look, so a reader that ends now is either seen or sets the event.
            if not self._ended:
                event.wait(timeout)
        finally:
            self._waiting.pop(event, None)
        return not self._ended


def _note_end(this: "weakref.ref[MailboxReader]", dead: "weakref.ref[_Mark]") -> None:
    reader = this()
    if reader is not None and reader._mark is dead:  # else another thread reads now
        reader._ended = True
        for event in tuple(reader._waiting):
            event.set()
