"""PUSH and PULL: work handed out in turn.  Who may call it: see `mq.sockets.base`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mq.constants import SocketType
from mq.fq import FairQueue
from mq.lb import LoadBalancer
from mq.sockets.base import SocketBase

if TYPE_CHECKING:
    from mq.ctx import Ctx
    from mq.message import Part
    from mq.pipe import Pipe
    from mq.reaper import Reaper


class Push(SocketBase):
    """Sends each message to one peer, in turn."""

    kind = SocketType.PUSH
    conflatable = True

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._lb = LoadBalancer()

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:  # noqa: ARG002
        """See `SocketBase`."""
        pipe.set_nodelay()
        self._lb.attach(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._lb.activated(pipe)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._lb.terminated(pipe)

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        return self._lb.send(part)

    def xhas_out(self) -> bool:
        """See `SocketBase`."""
        return self._lb.has_out()


class Pull(SocketBase):
    """Receives from all peers in turn."""

    kind = SocketType.PULL
    conflatable = True

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._fq = FairQueue()

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:  # noqa: ARG002
        """See `SocketBase`."""
        self._fq.attach(pipe)

    def xread_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._fq.activated(pipe)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._fq.terminated(pipe)

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        return self._fq.recv()

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return self._fq.has_in()
