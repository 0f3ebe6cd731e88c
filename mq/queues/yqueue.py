"""YQueue: an unbounded queue in chunks for exactly one writer and one reader.

Only the writer thread uses `push`, `unpush` and `back`, only the reader thread `pop`, `peek` and
`front`. `ypipe` tells the reader about new items.
"""

from collections import deque
from typing import Any, Final, Generic, TypeVar

from _purgatory_cpython.mypyc_types import i64, mypyc_attr

T = TypeVar("T")

#: Items in a chunk of messages (libzmq's granularity).
MESSAGE_CHUNK: Final = 256


class _Chunk:
    """A run of slots; `start` is the position of its first slot."""

    __slots__ = ("next", "previous", "start", "values")

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        self.start: i64 = 0
        self.next: _Chunk | None = None
        self.previous: _Chunk | None = None


@mypyc_attr(allow_interpreted_subclasses=True)
class YQueue(Generic[T]):
    """A queue of chunks of `chunk_size` slots; positions count items from 0 and never wrap.

    All operations are O(1) and take no lock. A push or pop takes effect with one statement: an
    interrupt finds it done or not.
    """

    __slots__ = ("_back", "_back_chunk", "_front", "_front_chunk", "_size", "_spare")

    def __init__(self, chunk_size: int = MESSAGE_CHUNK) -> None:
        if chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {chunk_size}")
        chunk = _Chunk(chunk_size)
        self._size: i64 = chunk_size
        self._back: i64 = 0  # writer: the position of the next push
        self._back_chunk = chunk  # writer
        self._front: i64 = 0  # reader: the position of the next pop
        self._front_chunk = chunk  # reader
        # For both sides: append and pop are atomic.
        self._spare: deque[_Chunk] = deque(maxlen=1)

    @property
    def back(self) -> int:
        """The position the next push will fill."""
        return self._back

    @property
    def front(self) -> int:
        """The position the next pop will take."""
        return self._front

    def push(self, value: T) -> None:
        """Append `value`."""
        position = self._back
        chunk = self._back_chunk
        index = position - chunk.start
        if index == self._size:
            chunk = self._grow(chunk, position)
            index = 0
        chunk.values[index] = value
        self._back = position + 1

    def unpush(self) -> T:
        """Take back the value pushed last, of which the reader knows nothing."""
        position = self._back - 1
        chunk = self._back_chunk
        if position < chunk.start:
            assert chunk.previous is not None
            chunk = chunk.previous
            self._back_chunk = chunk
            chunk.next = None
        index = position - chunk.start
        value: T = chunk.values[index]
        self._back = position
        chunk.values[index] = None
        return value

    def pop(self) -> T:
        """Remove the oldest value and return it. The queue must not be empty."""
        position = self._front
        chunk = self._front_chunk
        index = position - chunk.start
        if index == self._size:
            chunk = self._advance(chunk)
            index = 0
        values = chunk.values
        value: T = values[index]
        self._front = position + 1
        values[index] = None  # not to be kept alive here
        return value

    def peek(self) -> T:
        """Return the oldest value, which stays. The queue must not be empty."""
        chunk = self._front_chunk
        index = self._front - chunk.start
        if index == self._size:
            chunk = self._advance(chunk)
            index = 0
        value: T = chunk.values[index]
        return value

    def _grow(self, chunk: _Chunk, position: i64) -> _Chunk:
        # The next push repeats this after an interrupt: the reader follows links of flushed pushes.
        try:
            new = self._spare.pop()
        except IndexError:
            new = _Chunk(self._size)
        new.start = position
        new.previous = chunk
        chunk.next = new
        self._back_chunk = new
        return new

    def _advance(self, chunk: _Chunk) -> _Chunk:
        new = chunk.next
        assert new is not None
        self._front_chunk = new
        new.previous = None
        chunk.next = None
        self._spare.append(chunk)
        return new

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: two threads use it")

    def __repr__(self) -> str:
        return f"<YQueue {self._front}..{self._back}>"
