"""PAIR: exactly one peer. For the socket's thread."""

from typing import ClassVar

from mq.constants import SocketType
from mq.pipes.message import MessagePart, Part
from mq.pipes.pipe import Pipe
from mq.pipes.round_robin import AGAIN, OK, Sent
from mq.sockets.base import SocketBase


class Pair(SocketBase):
    """One connection at a time; ends a second one at once."""

    socket_type: ClassVar[SocketType] = SocketType.PAIR
    _pipe: Pipe | None = None
    _dropping = False  # the rest of a message whose peer has gone
    _mid_message = False

    def xattach(self, pipe: Pipe) -> None:
        if self._pipe is None or self._pipe is pipe:
            self._pipe = pipe
        else:
            pipe.terminate(False)

    def xterminated(self, pipe: Pipe) -> None:
        if pipe is self._pipe:
            self._pipe = None
            self._dropping = self._mid_message

    def xsend(self, part: Part) -> Sent:
        more = isinstance(part, MessagePart) and part.more
        if self._dropping:
            self._dropping = self._mid_message = more
            return OK
        pipe = self._pipe
        if pipe is None or not pipe.write(part):
            return self._refuse_part(more)
        self._mid_message = more
        if not more:
            pipe.flush()
        return OK

    def _refuse_part(self, more: bool) -> Sent:
        if not self._mid_message:
            return AGAIN
        # The connection is ending: the message was begun with room.
        self._dropping = self._mid_message = more
        return Sent.BROKEN

    def xrollback(self) -> None:
        if self._pipe is not None:
            self._pipe.rollback()
        self._dropping = self._mid_message = False

    def xrecv(self) -> Part | None:
        return None if self._pipe is None else self._pipe.read()

    def xhas_in(self) -> bool:
        return self._pipe is not None and self._pipe.check_read()

    def xhas_out(self) -> bool:
        return self._dropping or (self._pipe is not None and self._pipe.check_write())

    def xsource(self) -> Pipe | None:
        return self._pipe
