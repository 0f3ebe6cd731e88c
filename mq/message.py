"""Messages: parts as they travel, Frame as users hold them, MessageTracker.

Who may call it: a Frame belongs to one thread at a time; a MessageTracker to everybody.
"""

from __future__ import annotations

from threading import Event
from typing import Any, Union

from mq.constants import Errno, MessageOption
from mq.errors import NotDone, ZMQError

#: Flags of a part on its way.
MORE = 1
DELIMITER = 2  # ends a pipe
ROUTING_ID = 4  # names the sender; not counted by high-water marks


class Tracked:
    """Bytes with a bell: `released` rings when the last holder has let go."""

    __slots__ = ("data", "released")

    def __init__(self, data: bytes, released: Event) -> None:
        self.data = data
        self.released = released

    def __del__(self) -> None:
        self.released.set()


_Bytes = bytes  # Frame has a property of that name
Payload = Union[bytes, Tracked]  # noqa: UP007 - read at run time too
#: What pipes carry: the bytes, and flags.
Part = tuple[Payload, int]


def payload_bytes(payload: Payload) -> bytes:
    """The bytes in `payload`."""
    return payload.data if isinstance(payload, Tracked) else payload


def buffer_bytes(data: Any) -> bytes:
    """A copy of a bytes-like object.

    Raises TypeError for what exports no buffer, BufferError for one that is not contiguous.
    """
    view = memoryview(data)
    if not view.contiguous:
        raise BufferError("memoryview: underlying buffer is not contiguous")
    return view.tobytes()


class MessageTracker:
    """Tells when messages sent without copying have been let go by everybody.

    `towatch` may be Events, other trackers and tracked Frames; a Frame that is not tracked is a
    ValueError.
    """

    def __init__(self, *towatch: MessageTracker | Event | Frame) -> None:
        self.events: set[Event] = set()
        self.peers: set[MessageTracker] = set()
        for watched in towatch:
            if isinstance(watched, Event):
                self.events.add(watched)
            elif isinstance(watched, MessageTracker):
                self.peers.add(watched)
            elif isinstance(watched, Frame):
                if watched.tracker is None:
                    raise ValueError("Not a tracked message")
                self.peers.add(watched.tracker)
            else:
                raise TypeError(f"Require Events or Message Trackers, not {type(watched)}")

    @property
    def done(self) -> bool:
        """Whether all have been let go."""
        return all(e.is_set() for e in self.events) and all(p.done for p in self.peers)

    def wait(self, timeout: float = -1) -> None:
        """Wait until `done`, for at most `timeout` seconds (negative: for ever); else NotDone."""
        limit = None if timeout is None or timeout < 0 else timeout
        for event in self._all_events():
            if not event.wait(limit):
                raise NotDone

    def _all_events(self) -> set[Event]:
        return self.events.union(*(peer._all_events() for peer in self.peers))


_FINISHED_TRACKER = MessageTracker()


class Frame:
    """A part of a message.  Made from any bytes-like object, whose content is copied once.

    `track=True` gives it a `tracker`, which is done once every Frame on this content is gone.
    """

    __slots__ = ("_buffer", "_payload", "more", "tracker")

    def __init__(
        self,
        data: Any = b"",
        track: bool = False,
        copy: bool | None = None,
        copy_threshold: int | None = None,  # noqa: ARG002 - pyzmq's signature
    ) -> None:
        if isinstance(data, str):
            raise TypeError("Str objects not allowed. Only: bytes, buffer interfaces.")
        immutable = copy is False and type(data) is bytes
        content: bytes = data if immutable else buffer_bytes(data)
        self._payload: Payload = content
        self._buffer: memoryview | None = None
        self.tracker: MessageTracker | None = None
        self.more = False
        if track:
            released = Event()
            self._payload = Tracked(content, released)
            self.tracker = MessageTracker(released)

    @classmethod
    def received(cls, part: Part) -> Frame:
        """A Frame on a part just received."""
        frame = cls.__new__(cls)
        frame._payload = part[0]
        frame._buffer = None
        frame.tracker = None
        frame.more = bool(part[1] & MORE)
        return frame

    @property
    def payload(self) -> Payload:
        """What travels when this Frame is sent."""
        return self._payload

    @property
    def bytes(self) -> bytes:
        """The content."""
        return payload_bytes(self._payload)

    @property
    def buffer(self) -> memoryview:
        """A view of the content."""
        if self._buffer is None:
            self._buffer = memoryview(self.bytes)
        return self._buffer

    def get(self, option: int | str) -> int | str:
        """A message option (MORE, SHARED) or a property; there are no properties here."""
        if isinstance(option, str):
            raise ZMQError(_EINVAL)
        if option == MessageOption.MORE:
            return int(self.more)
        if option == MessageOption.SHARED:
            return 0
        raise ZMQError(_EINVAL)

    def __getitem__(self, option: int | str) -> int | str:
        return self.get(option)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.bytes)

    def __bytes__(self) -> _Bytes:
        return self.bytes

    def __len__(self) -> int:
        return len(self.bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.bytes == other.bytes

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Frame:
        frame = Frame.received((self._payload, int(self.more)))
        frame.tracker = self.tracker
        return frame

    def __str__(self) -> str:
        size = len(self)
        if size <= 16:
            return f"<zmq.Frame({self.bytes!r})>"
        return f"<zmq.Frame({self.bytes[:12]!r}...{_human(size)})>"

    __repr__ = __str__


Message = Frame
_EINVAL = int(Errno.EINVAL)


def _human(size: int) -> str:
    for limit, unit in ((1_000_000, "MB"), (1000, "kB")):
        if size >= limit:
            return f"{size // limit}{unit}"
    return f"{size}B"
