"""DEALER and ROUTER: asynchronous requests and replies.  Owned by the socket's thread."""

from itertools import count
from typing import ClassVar

from mq.constants import Errno, SocketOption, SocketType
from mq.core.context_core import ContextCore
from mq.core.options import Value
from mq.errors import ZMQError
from mq.pipes.fair_queue import FairQueue
from mq.pipes.load_balancer import AGAIN, OK, LoadBalancer, Sent
from mq.pipes.message import MessagePart, Part, bytes_of, more_of
from mq.pipes.pipe import Pipe, PipeState
from mq.sockets.base import SocketBase


class Dealer(SocketBase):
    """Sends to its peers in turn, and receives from them in turn (round-robin)."""

    socket_type: ClassVar[SocketType] = SocketType.DEALER

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._fair_queue = FairQueue()
        self._load_balancer = LoadBalancer()

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer; send it an empty message if PROBE_ROUTER is set."""
        probe(self, pipe)
        self._fair_queue.attach(pipe)
        self._load_balancer.attach(pipe)

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that the pipe has messages again."""
        self._fair_queue.activated(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Note that the pipe has room again."""
        self._load_balancer.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """Forget the pipe of a peer that has gone."""
        self._fair_queue.terminated(pipe)
        self._load_balancer.terminated(pipe)

    def xsend(self, part: Part) -> Sent:
        """Send the part to the next peer in turn that has room."""
        return self._load_balancer.send(part)

    def xrecv(self) -> Part | None:
        """Receive a part from the next peer in turn."""
        return self._fair_queue.recv()

    def xhas_in(self) -> bool:
        """Whether a message of some peer is here."""
        return self._fair_queue.has_in()

    def xhas_out(self) -> bool:
        """Whether some peer has room."""
        return self._load_balancer.has_out()

    def xsource(self) -> Pipe | None:
        """Return the pipe the last part came from."""
        return self._fair_queue.last_pipe


class Router(SocketBase):
    """Receives from its peers in turn, each message behind its sender's routing id.

    Sends each message to the peer whose routing id is its first part.
    """

    socket_type: ClassVar[SocketType] = SocketType.ROUTER

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._fair_queue = FairQueue()
        self._id_counter = count(1)
        self._by_id: dict[bytes, Pipe] = {}
        self._id_of: dict[Pipe, bytes] = {}  # the inverse
        self._prefetched: Part | None = None  # what follows the id handed out last
        self._send_pipe: Pipe | None = None  # of the message being sent; None: it is dropped
        self._mid_message = False  # the id of a message was taken, and not yet its last part

    # -- routing ids -------------------------------------------------------------------------

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer, unless its routing id will be known only after a bind."""
        probe(self, pipe)
        if pipe.pending is None or pipe.peer.mailbox is not None:
            self._identify(pipe)

    def xconnected(self, pipe: Pipe) -> None:
        """Add a peer whose routing id has become known by a bind."""
        if pipe not in self._id_of and pipe.state is PipeState.ACTIVE:
            self._identify(pipe)

    def _identify(self, pipe: Pipe) -> None:
        routing_id = pipe.routing_id
        if not routing_id:
            routing_id = self._automatic_id()
        elif routing_id in self._by_id:
            if not self.options[SocketOption.ROUTER_HANDOVER]:
                return  # a peer with an id that is taken is ignored
            self._reassign_id(routing_id)
        self._by_id[routing_id] = pipe
        self._id_of[pipe] = routing_id
        self._fair_queue.attach(pipe)

    def _automatic_id(self) -> bytes:
        # A zero byte first, which no id given by a program may have.
        return b"\0" + (next(self._id_counter) & 0xFFFFFFFF).to_bytes(4, "big")

    def _reassign_id(self, routing_id: bytes) -> None:
        old = self._by_id[routing_id]
        new_id = self._automatic_id()
        self._by_id[new_id] = old
        self._id_of[old] = new_id
        if old is self._send_pipe:
            self._send_pipe = None
        old.terminate(True)

    def xterminated(self, pipe: Pipe) -> None:
        """Forget the pipe of a peer that has gone."""
        routing_id = self._id_of.pop(pipe, None)
        if routing_id is not None:
            del self._by_id[routing_id]
        if (
            pipe is self._fair_queue.last_pipe
            and self._prefetched is not None
            and more_of(self._prefetched)
        ):
            self._prefetched = None  # the parts after it will not come
        self._fair_queue.terminated(pipe)
        if pipe is self._send_pipe:
            self._send_pipe = None

    # -- receiving ---------------------------------------------------------------------------

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that the pipe has messages again."""
        self._fair_queue.activated(pipe)

    def xrecv(self) -> Part | None:
        """Return a routing id, then the parts of the message."""
        part = self._prefetched
        if part is not None:
            self._prefetched = None
            return part
        part = self._fair_queue.recv()
        if part is None or not self._fair_queue.at_message_start:
            return part
        self._prefetched = part
        return self._routing_id_part()

    def _routing_id_part(self) -> Part:
        assert self._fair_queue.last_pipe is not None
        return MessagePart(self._id_of[self._fair_queue.last_pipe], True)

    def xhas_in(self) -> bool:
        """Whether a message of some peer is here."""
        return self._prefetched is not None or self._fair_queue.has_in()

    def xsource(self) -> Pipe | None:
        """Return the pipe the last part came from."""
        return self._fair_queue.last_pipe

    # -- sending -----------------------------------------------------------------------------

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Do nothing: `xsend` asks the pipe itself."""

    def xsend(self, part: Part) -> Sent:
        """Take a routing id, then the parts of the message to that peer.

        An unknown id: the message is dropped, or EHOSTUNREACH with ROUTER_MANDATORY.  A peer
        without room: dropped, or AGAIN with ROUTER_MANDATORY.
        """
        if self._mid_message:
            self._send_body(part)
            return OK
        if not more_of(part):
            return OK  # an id without a message
        pipe = self._by_id.get(bytes_of(part))
        mandatory = self._is_mandatory()
        if mandatory and pipe is None:
            raise ZMQError(Errno.EHOSTUNREACH)
        if pipe is not None and not pipe.check_write():
            if mandatory:
                if not pipe.is_full():  # not full, so the connection is ending
                    raise ZMQError(Errno.EHOSTUNREACH)
                return AGAIN
            pipe = None
        self._send_pipe = pipe
        self._mid_message = True
        return OK

    def _is_mandatory(self) -> bool:
        return bool(self.options[SocketOption.ROUTER_MANDATORY])

    def _send_body(self, part: Part) -> None:
        pipe = self._send_pipe
        more = self._mid_message = more_of(part)
        if pipe is None:
            return
        if not pipe.write(part):
            self._send_pipe = None
        elif not more:
            pipe.flush()
            self._send_pipe = None

    def xhas_out(self) -> bool:
        """Return True; with ROUTER_MANDATORY, whether some peer has room."""
        if not self._is_mandatory():
            return True
        return any(pipe.check_write() for pipe in self._id_of)

    def xset(self, option: int, value: Value) -> bool:
        """Accept and ignore CONNECT_ROUTING_ID, which names peers of a network."""
        return option == SocketOption.CONNECT_ROUTING_ID and isinstance(value, bytes)


def probe(socket: SocketBase, pipe: Pipe) -> None:
    """Send a new peer an empty message if PROBE_ROUTER is set."""
    if socket.options[SocketOption.PROBE_ROUTER] and pipe.write(b""):
        pipe.flush()
