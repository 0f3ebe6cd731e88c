"""PUSH and PULL: work handed out to whoever has room.  Owned by the socket's thread."""

from typing import TYPE_CHECKING, ClassVar

from mq.constants import SocketType
from mq.pipes.fair_queue import FairQueue
from mq.pipes.load_balancer import LoadBalancer, Sent
from mq.pipes.message import Part
from mq.pipes.pipe import Pipe
from mq.sockets.base import SocketBase

if TYPE_CHECKING:
    from mq.core.context_core import Ctx


class Push(SocketBase):
    """Sends each message to the next peer in turn."""

    socket_type: ClassVar[SocketType] = SocketType.PUSH

    def __init__(self, ctx: "Ctx", slot: int) -> None:
        super().__init__(ctx, slot)
        self._lb = LoadBalancer()

    def xattach(self, pipe: Pipe) -> None:
        """One more to send to.  It is never read, so no delimiter would ever be seen."""
        pipe.delay = False
        self._lb.attach(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Note that it has room again."""
        self._lb.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """One less."""
        self._lb.terminated(pipe)

    def xsend(self, part: Part) -> Sent:
        """Give the part to the peer whose turn it is."""
        return self._lb.send(part)

    def xhas_out(self) -> bool:
        """Whether anybody has room."""
        return self._lb.has_out()


class Pull(SocketBase):
    """Receives from all peers in turn."""

    socket_type: ClassVar[SocketType] = SocketType.PULL

    def __init__(self, ctx: "Ctx", slot: int) -> None:
        super().__init__(ctx, slot)
        self._fq = FairQueue()

    def xattach(self, pipe: Pipe) -> None:
        """One more to receive from."""
        self._fq.attach(pipe)

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that it has messages again."""
        self._fq.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """One less."""
        self._fq.terminated(pipe)

    def xrecv(self) -> Part | None:
        """Take a part from the peer whose turn it is."""
        return self._fq.recv()

    def xhas_in(self) -> bool:
        """Whether anybody has sent."""
        return self._fq.has_in()

    def xsource(self) -> Pipe | None:
        """Where the last part came from."""
        return self._fq.last
