"""YPipe: a pipe from a writer thread to a reader thread.

Only the writer thread calls `write`, `unwrite` and `flush`, only the reader thread the other
methods.

Four positions in the queue make the pipe::

    ... read ...|  ready to read  |   flushed    | complete, unflushed | incomplete |
                front             r              w                     f            back

`r` is private to the reader, `w` and `f` to the writer. The one shared word, `c`, is how far the
writer has flushed, or `ASLEEP` when the reader found nothing and went to sleep. It is compared and
set under a lock, once for each flush and each prefetch, never for each message; without the GIL the
lock also orders the memory of the values. Where compiled code is atomic (`ATOMIC_SECTIONS`) no lock
is taken: see docs/mechanisms.md.
"""

from contextlib import AbstractContextManager
from typing import Any, Final, Generic, TypeVar

from _purgatory_cpython.atomicity import ATOMIC_SECTIONS
from _purgatory_cpython.locks import new_hot_lock
from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from mq.queues.yqueue import MESSAGE_CHUNK, YQueue

T = TypeVar("T")

#: What `c` is while the reader sleeps: less than any position.
ASLEEP: Final = -1


class Empty(IndexError):
    """Nothing can be read, or unwritten."""


@mypyc_attr(allow_interpreted_subclasses=True)
class YPipe(Generic[T]):
    """A pipe whose writer knows when the reader sleeps, and owes a wake-up.

    A new pipe's reader counts as awake. `lock`: for tests.
    """

    __slots__ = ("_c", "_f", "_lock", "_queue", "_r", "_w")

    def __init__(
        self, chunk_size: int = MESSAGE_CHUNK, *, lock: AbstractContextManager[Any] | None = None
    ) -> None:
        self._queue: YQueue[T] = YQueue(chunk_size)
        if lock is None and not ATOMIC_SECTIONS:
            lock = new_hot_lock()
        self._lock = lock  # None: compare-and-set is atomic without it
        self._w: i64 = 0  # writer: the first unflushed position
        self._f: i64 = 0  # writer: where the next flush will reach
        self._r: i64 = 0  # reader: the first position not prefetched
        self._c: i64 = 0  # shared, written under the lock only

    def write(self, value: T, incomplete: bool = False) -> None:
        """Write `value`; the reader sees it after a flush.

        With `incomplete=True`, only after a later write has completed the message.
        """
        queue = self._queue
        queue.push(value)
        if not incomplete:
            self._f = queue._back

    def unwrite(self) -> T:
        """Take back the last incomplete value and return it; raise `Empty` if none exists."""
        if self._f == self._queue.back:
            raise Empty("nothing incomplete to take back")
        return self._queue.unpush()

    def flush(self) -> bool:
        """Let the reader see all complete values; False: the caller owes it exactly one signal."""
        limit = self._f
        if self._w == limit:
            return True
        lock = self._lock
        if lock is None:
            awake = self._publish(limit)
        else:
            with lock:  # and no call: a daemon thread may stop in one for good at exit
                awake = self._c != ASLEEP
                self._c = limit
        self._w = limit
        return awake

    def _publish(self, limit: i64) -> bool:
        awake = self._c != ASLEEP
        self._c = limit
        return awake

    def check_read(self) -> bool:
        """Whether a value can be read; prefetch all that is flushed, or fall asleep."""
        front = self._queue._front
        if front != self._r:
            return True
        lock = self._lock
        if lock is None:
            return self._prefetch(front)
        with lock:  # as in flush
            flushed = self._c
            if flushed in (ASLEEP, front):
                self._c = ASLEEP
                return False
            self._r = flushed
            return True

    def _prefetch(self, front: i64) -> bool:
        flushed = self._c
        if flushed in (ASLEEP, front):
            self._c = ASLEEP
            return False
        self._r = flushed
        return True

    def read(self) -> T:
        """Return the next value; raise `Empty` if none exists."""
        queue = self._queue
        if queue._front == self._r and not self.check_read():
            raise Empty("nothing to read")
        return queue.pop()

    def probe_or_none(self) -> T | None:
        """Return the next value, not taken; None if empty. For writers that write no None."""
        queue = self._queue
        if queue._front == self._r and not self.check_read():
            return None
        return queue.peek()

    def drop(self) -> None:
        """Take the value that `probe_or_none` returned."""
        queue = self._queue
        position = queue._front
        chunk = queue._front_chunk
        queue._front = position + 1
        chunk.values[position - chunk.start] = None  # not to be kept alive here

    @property
    def asleep(self) -> bool:
        """Whether the reader has found nothing."""
        return self._c == ASLEEP

    def _check(self) -> None:
        """Assert every invariant, with no side inside an operation."""
        front, back, r, w, f = self._queue.front, self._queue.back, self._r, self._w, self._f
        assert front <= r <= w <= f <= back, (front, r, w, f, back)
        assert self._c in (ASLEEP, w), (self._c, w)
        assert self._c != ASLEEP or front == r == w, (front, r, w)

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: two threads use it")

    def __repr__(self) -> str:
        state = "asleep" if self.asleep else "awake"
        return f"<YPipe reader {state} at {self._queue.front}, flushed to {self._w}>"


class ConflatePipe(Generic[T]):
    """A `YPipe` of one slot where the last message wins: no HWM, no multipart.

    Every flush requires a signal. `final_value`, the delimiter, follows the slot's value.
    """

    __slots__ = ("_final_value", "_lock", "_probed", "_slot")

    def __init__(self, final_value: T | None = None) -> None:
        self._lock = new_hot_lock()  # guards the slot: both sides change the slot
        self._slot: list[T] = []
        self._final_value = final_value
        self._probed: T | None = None  # the reader's

    def write(self, value: T, incomplete: bool = False) -> None:  # noqa: ARG002 - YPipe's signature
        """Replace what is in the slot by `value`."""
        with self._lock:
            self._slot = [*self._slot, value] if value is self._final_value else [value]

    def unwrite(self) -> T:
        """Raise `Empty`: every message is complete."""
        raise Empty("a conflating pipe holds nothing incomplete")

    def flush(self) -> bool:
        """Return False: the caller always owes a signal."""
        return False

    def probe_or_none(self) -> T | None:
        """Return the slot's value, which stays; None if empty."""
        slot = self._slot
        self._probed = slot[0] if slot else None
        return self._probed

    def drop(self) -> None:
        """Take the value that `probe_or_none` returned, unless replaced meanwhile."""
        with self._lock:
            if self._slot and self._slot[0] is self._probed:
                del self._slot[0]
        self._probed = None
