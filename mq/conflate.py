"""ConflatePipe: a pipe of one slot, in which the last message wins.

Who may call it: as a YPipe, one writer thread and one reader thread.  There is no HWM and no
multipart here, and every flush asks for a signal: a reader is never known to be awake.
"""

from threading import Lock
from typing import Generic, TypeVar

from mq.ypipe import Empty

T = TypeVar("T")


class ConflatePipe(Generic[T]):
    """The face of `mq.YPipe` over a single slot."""

    __slots__ = ("_lock", "_slot")

    def __init__(self) -> None:
        self._lock = Lock()  # guards the slot: both sides replace it
        self._slot: list[T] = []

    def write(self, value: T, incomplete: bool = False) -> None:  # noqa: ARG002 - YPipe's signature
        """Replace what is in the slot by `value`."""
        with self._lock:
            self._slot = [value]

    def unwrite(self) -> T:
        """`Empty`, always: a conflated message has one part and is complete."""
        raise Empty("a conflating pipe holds nothing incomplete")

    def flush(self) -> bool:
        """False: the caller always owes a signal."""
        return False

    def check_read(self) -> bool:
        """Whether the slot is full."""
        return bool(self._slot)

    def probe(self) -> T:
        """What is in the slot, without taking it; `Empty` when there is nothing."""
        slot = self._slot
        if not slot:
            raise Empty("nothing to read")
        return slot[0]

    def read(self) -> T:
        """Empty the slot and return what was in it; `Empty` when there is nothing."""
        with self._lock:
            slot, self._slot = self._slot, []
        if not slot:
            raise Empty("nothing to read")
        return slot[0]
