"""SocketIO: send and recv of a socket's handle, the compiled base of `mq.Socket`.

For the socket's thread.
"""

from collections.abc import Sequence
from typing import Any, Final

from _purgatory_cpython.mypyc_types import mypyc_attr
from mq.constants import Errno
from mq.errors import ZMQError
from mq.frame import Frame, contiguous_view, frame_from_part
from mq.pipes.message import (
    FINISHED_TRACKER,
    MessagePart,
    MessageTracker,
    Part,
    bytes_of,
    data_of,
    part_of,
)
from mq.sockets.base import SocketBase

_SNDMORE: Final = 2

# Of a roll-back, until other threads free a few bytes.
_MAX_ATTEMPTS: Final = 200


@mypyc_attr(allow_interpreted_subclasses=True)
class SocketIO:
    """Sends and receives through the socket behind the handle."""

    copy_threshold: int
    _core: SocketBase

    # -- sending -----------------------------------------------------------------------------

    def send(
        self,
        data: Any,
        flags: int = 0,
        copy: Any = True,
        track: Any = False,
        routing_id: int | None = None,
        group: str | None = None,
    ) -> MessageTracker | None:
        """Send a part: bytes, a Frame, or anything with a contiguous buffer.

        `flags` are DONTWAIT and SNDMORE. Waits for room at most SNDTIMEO, then `Again`. With
        `copy=False`, large buffers are shared with the receiver and must not be changed; with
        `track`, the returned tracker tells until when.
        """
        if type(data) is bytes and copy and routing_id is None and group is None:
            self._core.send(MessagePart(data, True) if flags & _SNDMORE else data, flags)
            return None
        if routing_id is not None or group is not None:
            raise ZMQError(Errno.ENOTSUP, "routing_id and group need a network")
        part, tracker = self._part(data, flags, copy, track)
        self._core.send(part, flags)
        return tracker

    def _part(
        self, data: Any, flags: int, copy: Any, track: Any
    ) -> tuple[Part, MessageTracker | None]:
        more = flags & _SNDMORE != 0
        if self._core.closed:
            raise ZMQError(Errno.ENOTSOCK)
        if isinstance(data, Frame):
            if track and data.tracker is None:
                raise ValueError("Not a tracked message")
            return data.part(more), data.tracker
        view = contiguous_view(data)
        if copy or view.nbytes < self.copy_threshold:
            content = data if type(data) is bytes else view.tobytes("A")  # as it is in memory
            return part_of(content, more), None if copy else FINISHED_TRACKER
        if not track:
            return MessagePart(view, more), None
        frame = Frame(data, track=True, copy=False)
        return frame.part(more), frame.tracker

    def send_multipart(
        self,
        msg_parts: Sequence[Any],
        flags: int = 0,
        copy: Any = True,
        track: Any = False,
        **kwargs: Any,
    ) -> MessageTracker | None:
        """Send all parts of a message, or none after an exception.

        TypeError for a part that cannot be sent.
        """
        for index, part in enumerate(msg_parts):
            if type(part) is not bytes:
                _check_part(index, part)
        try:
            for part in msg_parts[:-1]:
                self.send(part, flags | _SNDMORE, copy=copy, track=track, **kwargs)
            return self.send(msg_parts[-1], flags, copy=copy, track=track, **kwargs)
        except BaseException:
            attempts = 0
            while attempts < _MAX_ATTEMPTS:
                attempts += 1
                try:
                    self._core.rollback()
                    attempts = _MAX_ATTEMPTS
                except MemoryError:
                    pass
            raise

    # -- receiving ---------------------------------------------------------------------------

    def recv(self, flags: int = 0, copy: Any = True, track: Any = False) -> Any:
        """Receive a part: bytes, or with `copy=False` a Frame.

        Waits at most RCVTIMEO, then `Again`. RCVMORE says whether more parts follow.
        """
        core = self._core
        part = core.recv(flags)
        if not copy:
            received: Any = frame_from_part(part, bool(track))
        else:
            received = part if isinstance(part, bytes) else bytes_of(part)
        if core.given_back:
            core.drop()
        else:
            core.in_hand = None  # without a call
        return received

    def recv_into(self, buffer: Any, /, *, nbytes: int = 0, flags: int = 0) -> int:
        """Receive a part into a buffer, at most `nbytes` (0: what fits).

        Returns the size of the part; bytes that did not fit are lost.
        """
        if nbytes < 0:
            raise ValueError(f"{nbytes=} must be non-negative")
        view = contiguous_view(buffer)
        if view.readonly:
            raise BufferError("Object is not writable.")
        if not view.c_contiguous:
            raise BufferError("the buffer is in Fortran order; expected it C-contiguous")
        if nbytes > view.nbytes:
            raise ValueError(f"{nbytes=} too big for memoryview of {view.nbytes}B")
        data = data_of(self._core.recv(flags))
        size = min(len(data), nbytes or view.nbytes)
        if size:
            view.cast("B")[:size] = data[:size]
        length = len(data)
        self._core.drop()
        return length

    def recv_multipart(self, flags: int = 0, copy: Any = True, track: Any = False) -> Any:
        """Receive all parts of a message as a list."""
        parts: list[Any] = []
        try:
            parts.append(self.recv(flags, copy=copy, track=track))
            while True:  # without a condition: see `_purgatory_cpython.locks`
                if not self._core.rcvmore:
                    return parts
                parts.append(self.recv(flags, copy=copy, track=track))
        except BaseException:  # an interrupt: the next call receives the whole message
            self._give_back(parts)
            raise

    def _give_back(self, received: list[Any]) -> None:
        core, parts = self._core, []
        for number, data in enumerate(received, 1):
            more = number < len(received) or core.mid_recv
            parts.append(data.part(more) if isinstance(data, Frame) else part_of(data, more))
        core.give_back(parts)


def _check_part(index: int, part: Any) -> None:
    try:
        memoryview(part)
    except TypeError:
        text = repr(part)
        text = text if len(text) <= 32 else text[:32] + "..."
        raise TypeError(f"Frame {index} ({text}) does not support the buffer interface.") from None
