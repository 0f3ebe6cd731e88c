"""PUSH and PULL: each message to one peer that has room.  Owned by the socket's thread."""

from typing import ClassVar

from mq.constants import SocketType
from mq.core.context_core import ContextCore
from mq.pipes.fair_queue import FairQueue
from mq.pipes.load_balancer import LoadBalancer, Sent
from mq.pipes.message import Part
from mq.pipes.pipe import Pipe
from mq.sockets.base import SocketBase


class Push(SocketBase):
    """Sends each message to the next peer in turn."""

    socket_type: ClassVar[SocketType] = SocketType.PUSH

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._load_balancer = LoadBalancer()

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer to send to.  Its pipe is never read, so a delimiter would not be seen."""
        pipe.delay = False
        self._load_balancer.attach(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Note that the pipe has room again."""
        self._load_balancer.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """Forget the pipe of a peer that has gone."""
        self._load_balancer.terminated(pipe)

    def xsend(self, part: Part) -> Sent:
        """Send the part to the next peer in turn that has room."""
        return self._load_balancer.send(part)

    def xrollback(self) -> None:
        """Take back the parts of a message begun."""
        self._load_balancer.rollback()

    def xhas_out(self) -> bool:
        """Whether some peer has room."""
        return self._load_balancer.has_out()


class Pull(SocketBase):
    """Receives from all peers in turn."""

    socket_type: ClassVar[SocketType] = SocketType.PULL

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._fair_queue = FairQueue()

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer to receive from."""
        self._fair_queue.attach(pipe)

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that the pipe has messages again."""
        self._fair_queue.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """Forget the pipe of a peer that has gone."""
        self._fair_queue.terminated(pipe)

    def xrecv(self) -> Part | None:
        """Receive a part from the next peer in turn."""
        return self._fair_queue.recv()

    def xhas_in(self) -> bool:
        """Whether a message of some peer is here."""
        return self._fair_queue.has_in()

    def xsource(self) -> Pipe | None:
        """Return the pipe the last part came from."""
        return self._fair_queue.last_pipe
