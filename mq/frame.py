"""Frame: a message part as an object. It may be sent any number of times, from any thread."""

from typing import Any, SupportsIndex

from _purgatory_cpython.threads import InterruptibleEvent
from mq.constants import Errno, MessageOption
from mq.errors import ZMQError
from mq.pipes.message import (
    FINISHED_TRACKER,
    MessagePart,
    MessageTracker,
    Part,
    ReleaseNotifier,
    part_of,
)

#: Buffers smaller than this are copied even if asked not to be.
COPY_THRESHOLD = 65536


class Frame(bytearray):
    """A message part. `memoryview(frame)` and `frame.buffer` are views of its bytes.

    A bytearray for the buffer protocol, which Python classes lack before 3.12, at the price of a
    copy. Frames compare and hash by identity. With `track=True` and no copy, `tracker` tells when
    the data is free.
    """

    def __init__(
        self,
        data: Any = None,
        track: bool = False,
        copy: bool | None = None,
        copy_threshold: int | None = None,
    ) -> None:
        view = contiguous_view(b"" if data is None else data)
        # As it is in memory, also in Fortran order.
        super().__init__(view if view.c_contiguous else view.tobytes("A"))
        if copy is None:
            copy = view.nbytes < (COPY_THRESHOLD if copy_threshold is None else copy_threshold)
        self.more = False
        self.tracker: MessageTracker | None = FINISHED_TRACKER if track else None
        self._release_notifier: ReleaseNotifier | None = None
        self._buffer: memoryview | None = None
        self._bytes: bytes | None = None
        if track and not copy and data is not None:
            event = InterruptibleEvent()
            self.tracker = MessageTracker(event)
            self._release_notifier = ReleaseNotifier(event)

    @property
    def bytes(self) -> bytes:
        """The data as bytes, converted once."""
        if self._bytes is None:
            self._bytes = bytes(memoryview(self))
        return self._bytes

    @property
    def buffer(self) -> memoryview:
        """The data as a memoryview, made once."""
        if self._buffer is None:
            self._buffer = memoryview(self)
        return self._buffer

    def part(self, more: bool) -> Part:
        """Return the part to send."""
        return part_of(self.bytes, more, self._release_notifier)

    def get(self, option: int | str) -> Any:
        """Return `MORE` or `SHARED`; else EINVAL."""
        if option == MessageOption.MORE:
            return int(self.more)
        if option == MessageOption.SHARED:
            return int(self._release_notifier is not None)
        raise ZMQError(Errno.EINVAL)

    def set(self, option: int, value: int) -> None:  # noqa: ARG002 - pyzmq's signature
        """Raise EINVAL."""
        raise ZMQError(Errno.EINVAL)

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        if isinstance(key, str):
            return self.get(key)
        return super().__getitem__(key)

    def __copy__(self) -> "Frame":
        frame = type(self)(self, copy=True)
        frame.more = self.more
        frame.tracker = self.tracker
        frame._release_notifier = self._release_notifier
        return frame

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __repr__(self) -> str:
        size = len(self)
        if size <= 16:
            return f"<zmq.Frame({self.bytes!r})>"
        return f"<zmq.Frame({bytes(self.buffer[:12])!r}...{_format_size(size)})>"

    __str__ = __repr__


def _format_size(size: int) -> str:
    if size >= 1e9:
        return f"{size // 1e9:.0f}GB"
    if size >= 2**20:
        return f"{size // 1e6:.0f}MB"
    if size >= 1e3:
        return f"{size // 1e3:.0f}kB"
    return f"{size}B"


def contiguous_view(data: Any) -> memoryview:
    """Return a view of a buffer, else TypeError; BufferError if it has gaps."""
    if isinstance(data, str):
        raise TypeError("unicode not allowed, encode it or use send_string")
    view = memoryview(data)
    if not view.contiguous:
        raise BufferError("memoryview: underlying buffer is not contiguous")
    return view


def frame_from_part(part: Part, track: bool) -> Frame:
    """Return the frame of a part that has arrived."""
    if not isinstance(part, MessagePart):
        return Frame(part, track=track, copy=True)
    frame = Frame(part.data, track=track, copy=True)
    frame.more = part.more
    frame._release_notifier = part.release_notifier
    return frame


Message = Frame
