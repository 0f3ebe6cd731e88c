"""ConflatePipe: a pipe of one slot, in which the last message wins.

Thread-safety: as a YPipe, one writer thread and one reader thread.  It has neither HWM nor
multipart, and every flush requires a signal: a reader is never known to be awake.
"""

from typing import Generic, TypeVar

from _purgatory_cpython.locks import new_hot_lock
from mq.queues.ypipe import Empty

T = TypeVar("T")


class ConflatePipe(Generic[T]):
    """The interface of `mq.YPipe` over a single slot.

    `final_value`, if given, is the one value that does not replace what is there but follows it:
    the delimiter that ends a connection must not eat the message before it.
    """

    __slots__ = ("_final_value", "_lock", "_probed", "_slot")

    def __init__(self, final_value: T | None = None) -> None:
        self._lock = new_hot_lock()  # guards the slot: both sides change it
        self._slot: list[T] = []
        self._final_value = final_value
        self._probed: T | None = None  # the reader's

    def write(self, value: T, incomplete: bool = False) -> None:  # noqa: ARG002 - YPipe's signature
        """Replace what is in the slot by `value`."""
        with self._lock:
            self._slot = [*self._slot, value] if value is self._final_value else [value]

    def unwrite(self) -> T:
        """Raise `Empty`: a conflated message has one part and is complete."""
        raise Empty("a conflating pipe holds nothing incomplete")

    def flush(self) -> bool:
        """Return False: the caller always owes a signal."""
        return False

    def check_read(self) -> bool:
        """Whether the slot is full."""
        return bool(self._slot)

    def read(self) -> T:
        """Empty the slot and return what was in it; `Empty` when there is nothing."""
        with self._lock:
            if not self._slot:
                raise Empty("nothing to read")
            value, *self._slot = self._slot
        return value

    def probe(self) -> T:
        """Return what is in the slot, which stays; `Empty` when there is nothing."""
        slot = self._slot
        if not slot:
            raise Empty("nothing to read")
        return slot[0]

    def probe_or_none(self) -> T | None:
        """Likewise, but None when there is nothing."""
        slot = self._slot
        self._probed = slot[0] if slot else None
        return self._probed

    def drop(self) -> None:
        """Take the value that `probe_or_none` has returned, unless it was replaced meanwhile."""
        with self._lock:
            if self._slot and self._slot[0] is self._probed:
                del self._slot[0]
        self._probed = None
