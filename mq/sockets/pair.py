"""PAIR: exactly one peer.  Who may call it: see `mq.sockets.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mq.constants import SocketType
from mq.message import MORE, Part
from mq.sockets.base import SocketBase

if TYPE_CHECKING:
    from mq.pipe import Pipe


class Pair(SocketBase):
    """One pipe; those that come later are ended at once."""

    kind = SocketType.PAIR
    _pipe: Pipe | None = None
    _dropping = False  # the peer went in the middle of a message: drop the rest
    _sending_more = False

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:  # noqa: ARG002
        """See `SocketBase`."""
        if self._pipe is None:
            self._pipe = pipe
        else:
            pipe.terminate(False)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        if pipe is self._pipe:
            self._pipe = None
            self._dropping = self._sending_more

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        more = bool(part[1] & MORE)
        if self._dropping:
            self._dropping = self._sending_more = more
            return True
        pipe = self._pipe
        if pipe is None or not pipe.write(part):
            if not self._sending_more:
                return False
            self._dropping = self._sending_more = more
            return True
        self._sending_more = more
        if not more:
            pipe.flush()
        return True

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        return None if self._pipe is None else self._pipe.read()

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return self._pipe is not None and self._pipe.check_read()

    def xhas_out(self) -> bool:
        """See `SocketBase`."""
        return self._pipe is not None and self._pipe.check_write()
