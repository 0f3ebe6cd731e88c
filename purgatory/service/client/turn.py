"""Turn: which thread uses the connection and the session of a client. Any thread."""

from threading import get_ident

from timingwheel.lowlevel import new_hot_condition


class Turn:
    """Held by one thread at a time, or by none. Any thread; a leaf lock, never held for long."""

    def __init__(self) -> None:
        # Re-entrant: a finalizer or a signal handler may make a call while its thread is in here.
        self._changed = new_hot_condition()
        self._waiting = 0  # threads
        #: The identity of the holding thread; 0: none.
        self.holder: int = 0

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread holds it."""
        return self.holder == get_ident()

    def try_take(self) -> bool:
        """Take the turn if free; False also if the calling thread holds it already.

        Not free for this while another thread waits.
        """
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
        """Let other threads take the turn. Does nothing if the calling thread does not hold it."""
        thread = get_ident()
        with self._changed:
            if self.holder == thread:
                if self._waiting:
                    self._changed.notify()
                self.holder = 0  # last: an interrupted caller repeats everything
