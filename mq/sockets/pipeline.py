"""PUSH and PULL: each message goes to one peer with room. For the socket's thread."""

from typing import ClassVar

from mq.constants import Errno, SocketType
from mq.core.context_core import ContextCore
from mq.errors import ZMQError
from mq.pipes.message import Part
from mq.pipes.pipe import Pipe
from mq.pipes.round_robin import LoadBalancer, Sent
from mq.sockets.base import SocketBase


class Push(SocketBase):
    """Sends each message to the next peer in turn."""

    socket_type: ClassVar[SocketType] = SocketType.PUSH

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._load_balancer = LoadBalancer()

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer; its pipe is not read, and shows no delimiter."""
        pipe.delay = False
        self._load_balancer.attach(pipe)

    def write_activated(self, pipe: Pipe) -> None:
        self._load_balancer.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        self._fair_queue.terminated(pipe)
        self._load_balancer.terminated(pipe)

    def xsend(self, part: Part) -> Sent:
        return self._load_balancer.send(part)

    def xrollback(self) -> None:
        self._load_balancer.rollback()

    def xrecv(self) -> Part | None:
        raise ZMQError(Errno.ENOTSUP)

    def xhas_out(self) -> bool:
        return self._load_balancer.has_out()


class Pull(SocketBase):
    """Receives from all peers in turn."""

    socket_type: ClassVar[SocketType] = SocketType.PULL
