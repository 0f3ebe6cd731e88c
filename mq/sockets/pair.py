"""PAIR: exactly one peer.  Owned by the socket's thread."""

from typing import ClassVar

from mq.constants import SocketType
from mq.pipes.load_balancer import AGAIN, OK, Sent
from mq.pipes.message import Part, more_of
from mq.pipes.pipe import Pipe
from mq.sockets.base import SocketBase


class Pair(SocketBase):
    """One connection at a time; a second one is ended at once."""

    socket_type: ClassVar[SocketType] = SocketType.PAIR
    _pipe: Pipe | None = None
    _cut = False  # the peer left inside a message of ours: the rest of that is dropped
    _inside = False

    def xattach(self, pipe: Pipe) -> None:
        """Keep the first connection, end others."""
        if self._pipe is None:
            self._pipe = pipe
        else:
            pipe.terminate(False)

    def xterminated(self, pipe: Pipe) -> None:
        """Note that the peer has gone; another may come."""
        if pipe is self._pipe:
            self._pipe = None
            self._cut = self._inside

    def xsend(self, part: Part) -> Sent:
        """Write to the peer, if there is one and it has room."""
        if self._cut:
            self._cut = self._inside = more_of(part)
            return OK
        pipe = self._pipe
        if pipe is None or not pipe.write(part):
            return self._failed(part)
        self._inside = more_of(part)
        if not self._inside:
            pipe.flush()
        return OK

    def _failed(self, part: Part) -> Sent:
        if not self._inside:
            return AGAIN
        # The peer is leaving: it had room for the message when it was begun.
        self._cut = self._inside = more_of(part)
        return Sent.BROKEN

    def xrecv(self) -> Part | None:
        """Read from the peer."""
        return None if self._pipe is None else self._pipe.read()

    def xhas_in(self) -> bool:
        """Whether the peer has written."""
        return self._pipe is not None and self._pipe.check_read()

    def xhas_out(self) -> bool:
        """Whether the peer has room."""
        return self._cut or (self._pipe is not None and self._pipe.check_write())

    def xsource(self) -> Pipe | None:
        """Return the only peer."""
        return self._pipe
