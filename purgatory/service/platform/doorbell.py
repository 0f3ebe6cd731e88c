"""Doorbell: the descriptors that wake the I/O thread of a client, lent to callers now and then.

A caller that receives its answer itself waits for the descriptors instead of the I/O thread. That
one sleeps on meanwhile: they are taken from under it, and put back, without waking it. This needs
epoll; where there is none, nothing is lent.
"""

import math
import select
import sys
from typing import Final

#: Whether descriptors can be lent on this system.
CAN_LEND: Final = sys.platform == "linux"


class Doorbell:
    """Descriptors to be readable. `sleep` is for the I/O thread, `ready` for one at a time."""

    #: Whether callers may be lent the descriptors.
    can_lend: bool = CAN_LEND

    def __init__(self) -> None:
        self._descriptors = select.epoll() if sys.platform == "linux" else _Poll()
        self._bell = self._descriptors  # has the others, unless they are lent
        if sys.platform == "linux":
            self._bell = select.epoll()
            self._bell.register(self._descriptors.fileno(), select.EPOLLIN)

    def register(self, descriptor: int) -> None:
        """Add a descriptor."""
        self._descriptors.register(descriptor, select.POLLIN)

    def unregister(self, descriptor: int) -> None:
        """Remove a descriptor."""
        self._descriptors.unregister(descriptor)

    def sleep(self, seconds: float | None) -> None:
        """Wait until a descriptor is readable and not lent, `seconds` at most (None: for ever)."""
        self._bell.poll(seconds)

    def ready(self, seconds: float = 0.0) -> list[int]:
        """Return the readable descriptors, after at most `seconds` if there are none yet."""
        return [descriptor for descriptor, _ in self._descriptors.poll(seconds)]

    def lend(self) -> None:
        """Let `sleep` sleep, whatever descriptor is readable. Only where `CAN_LEND`."""
        self._bell.modify(self._descriptors.fileno(), 0)

    def take_back(self) -> None:
        """End `lend`: a descriptor that is readable by now ends the sleep. Idempotent."""
        self._bell.modify(self._descriptors.fileno(), select.POLLIN)

    def close(self) -> None:
        """Close what it has opened itself."""
        self._bell.close()
        self._descriptors.close()


class _Poll:
    """What `Doorbell` needs of an epoll, by poll(2)."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.unregister = self._poll.unregister

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Wait for at most so many seconds."""
        return self._poll.poll(None if seconds is None else math.ceil(1000 * seconds))

    def fileno(self) -> int:
        """Return no descriptor."""
        return -1

    def modify(self, descriptor: int, events: int) -> None:
        """Do nothing; see `CAN_LEND`."""

    def close(self) -> None:
        """Do nothing."""
