"""Turn: the right of one thread to use a client's connection and session. Any thread."""

from threading import get_ident

from timingwheel.lowlevel import new_hot_condition


class Turn:
    """Held by one thread at a time."""

    def __init__(self) -> None:
        # A leaf lock. Re-entrant: a finalizer or signal handler may make a call.
        self._changed = new_hot_condition()
        self._waiting = 0  # threads
        #: The identity of the holding thread; 0: none.
        self.holder: int = 0

    def renew_locks(self) -> None:
        """See `LockOwner`."""
        self._changed = new_hot_condition()

    def is_mine(self) -> bool:
        """Tell whether the calling thread holds the turn."""
        return self.holder == get_ident()

    def try_take(self) -> bool:
        """Take the turn unless a thread, even the caller, holds it or waits for it."""
        thread = get_ident()
        with self._changed:
            if self.holder or self._waiting:
                return False
            self.holder = thread
        return True

    def take(self) -> None:
        """Wait until the turn is free, and take it."""
        thread = get_ident()
        with self._changed:
            while self.holder:
                self._wait()
            self.holder = thread

    def _wait(self) -> None:
        self._waiting += 1
        try:
            self._changed.wait()
        finally:
            self._waiting -= 1

    def give_up(self) -> None:
        """Give up the turn, if the caller holds it."""
        thread = get_ident()
        with self._changed:
            if self.holder == thread:
                if self._waiting:
                    self._changed.notify()
                self.holder = 0  # last: an interrupted caller repeats everything
