"""Attempt: how a worker and an attempt's handler communicate. Any thread."""

import threading
from typing import Final

# Held while an event is made: two threads of a handler may ask for it at once.
_making: Final = threading.Lock()


class Attempt:
    """An attempt: whether its job was cancelled, and how to extend its time."""

    __slots__ = ("_event", "is_cancelled")

    def __init__(self) -> None:
        self._event: threading.Event | None = None  # made when it is asked for: most never are
        self.is_cancelled: bool = False

    def extend(self, seconds: float) -> bool:
        """See `Job.extend`; without a worker there is nothing to extend."""
        del seconds
        return False

    @property
    def cancelled(self) -> threading.Event:
        """The event that is set when the job is cancelled."""
        with _making:
            if self._event is None:
                self._event = threading.Event()
        if self.is_cancelled:  # after the event is there: `cancel` may have missed it
            self._event.set()
        return self._event

    def cancel(self) -> None:
        """Tell the handler that the job was cancelled."""
        self.is_cancelled = True
        event = self._event
        if event is not None:
            event.set()
