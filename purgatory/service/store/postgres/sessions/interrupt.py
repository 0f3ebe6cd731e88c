"""Interrupt: ends a thread's waits in a session. `set` is for any thread."""

import os
import select
import threading
import time
from typing import Final

# Seconds left to a wait after `set`: a healthy database answers.
_GRACE_S: Final = 0.5


class Interrupt:
    """Once set, waits end soon, and its file descriptor is readable."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._until_s: float | None = None
        self._lock = threading.Lock()  # a closed descriptor may be another file's

    @property
    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._until_s is not None

    def fileno(self) -> int:
        """Return the descriptor that pollers watch."""
        return self._reader

    def set(self) -> None:
        """End all waits soon. Idempotent."""
        with self._lock:
            if self._until_s is None and self._writer >= 0:
                self._until_s = time.monotonic() + _GRACE_S
                os.write(self._writer, b"\0")

    def wait(self, seconds: float) -> None:
        """Wait so long, or until set."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        poll.poll(seconds * 1000)

    def deadline(self, deadline_s: float) -> float:
        """Return when a wait until `deadline_s` ends, in monotonic seconds."""
        until_s = self._until_s
        return deadline_s if until_s is None else min(deadline_s, until_s)

    def close(self) -> None:
        """Close the descriptors, without any waits. Idempotent."""
        with self._lock:
            for descriptor in (self._reader, self._writer):
                if descriptor >= 0:
                    os.close(descriptor)
            self._reader = self._writer = -1
