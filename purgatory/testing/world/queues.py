"""The mailbox and the doorbell of simulated processes."""

from collections import deque
from typing import Any

from mq import Mailbox, MailboxClosed
from purgatory.service.platform import Doorbell
from purgatory.testing.world.descriptors import Descriptors, Wake


class SimulatedMailbox(Mailbox[Any]):
    """A mailbox whose `recv` never waits: messages have its thread stepped.

    A `Mailbox` only for its type, which compiled code asks for.
    """

    def __init__(self, descriptors: Descriptors) -> None:  # not super's: it opens a descriptor
        self._descriptors = descriptors
        self._fileno = descriptors.new()
        self._commands: deque[Any] = deque()
        self._is_closed = False

    def send(self, command: Any) -> None:
        if command is None:
            raise TypeError("command is None; expected anything else")
        if self._is_closed:
            raise MailboxClosed("the mailbox is closed")
        self._commands.append(command)
        self._descriptors.signal(self._fileno)

    def recv(self, timeout: float | None = None) -> Any:
        """Return the next command, if any. Raises MailboxClosed."""
        del timeout
        if self._commands:
            return self._commands.popleft()
        if self._is_closed:
            raise MailboxClosed("the mailbox is closed")
        self._descriptors.clear(self._fileno)
        return None

    def peek(self) -> bool:
        return bool(self._commands)

    def fileno(self) -> int:
        return self._fileno

    def close(self) -> None:
        self._is_closed = True

    @property
    def closed(self) -> bool:
        return self._is_closed

    @property
    def depth(self) -> int:
        return len(self._commands)


class SimulatedDoorbell(Doorbell):
    """A doorbell that calls `wake`, set later."""

    can_lend = False

    def __init__(self, descriptors: Descriptors) -> None:  # not super's: it opens descriptors
        self._all = descriptors
        self._registered: list[int] = []
        self.wake: Wake = _nothing

    def register(self, descriptor: int) -> None:
        self._registered.append(descriptor)
        self._all.watch(descriptor, self._ring)

    def _ring(self) -> None:
        self.wake()

    def unregister(self, descriptor: int) -> None:
        self._registered.remove(descriptor)
        self._all.unwatch(descriptor)

    def ready(self, seconds: float = 0.0) -> list[int]:
        """Return the readable descriptors, without waiting."""
        del seconds
        return [each for each in self._registered if self._all.is_readable(each)]

    def close(self) -> None:
        """Wake no thread."""
        for descriptor in self._registered:
            self._all.unwatch(descriptor)


def _nothing() -> None:
    """Wake no thread."""
