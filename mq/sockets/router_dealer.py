"""DEALER and ROUTER: asynchronous requests and replies. For the socket's thread."""

import os
from itertools import count
from typing import ClassVar

from mq.constants import Errno, SocketOption, SocketType
from mq.core.context_core import ContextCore
from mq.errors import ZMQError
from mq.pipes.message import MessagePart, Part, bytes_of, more_of
from mq.pipes.pipe import Pipe, PipeState
from mq.pipes.round_robin import AGAIN, OK, Sent
from mq.sockets.base import SocketBase
from mq.sockets.pipeline import Push


class Dealer(Push):
    """Sends to peers, and receives from them, in turn."""

    socket_type: ClassVar[SocketType] = SocketType.DEALER

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer; send it an empty message if PROBE_ROUTER is set."""
        probe(self, pipe)
        self._fair_queue.attach(pipe)
        self._load_balancer.attach(pipe)

    def xrecv(self) -> Part | None:
        return self._fair_queue.recv()


class Router(SocketBase):
    """Receives from its peers in turn, each message behind its sender's routing id.

    Sends each message to the peer named by its first part.
    """

    socket_type: ClassVar[SocketType] = SocketType.ROUTER

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        # At random: an id of an earlier socket must reach no other peer.
        self._id_counter = count(int.from_bytes(os.urandom(4), "big"))
        self._by_id: dict[bytes, Pipe] = {}
        self._id_of: dict[Pipe, bytes] = {}  # the inverse
        # A part taken and not returned yet, and the id to return before it.
        self._prefetched: Part | None = None
        self._prefetched_id: bytes | None = None
        # Whose id another peer has taken over, and of which a message is being received.
        self._replaced: Pipe | None = None
        self._replaced_id = b""
        self._send_pipe: Pipe | None = None  # of the message being sent; None: it is dropped
        self._mid_message = False  # after the id, until the last part

    def connect(self, address: str) -> None:
        """Connect; EADDRINUSE if a peer has the id of CONNECT_ROUTING_ID.

        With ROUTER_HANDOVER the new peer takes the id over.
        """
        self._check_usable()
        is_taken = self.options.connect_routing_id in self._by_id
        if is_taken and not self.options[SocketOption.ROUTER_HANDOVER]:
            raise ZMQError(Errno.EADDRINUSE)
        super().connect(address)

    def xattach(self, pipe: Pipe) -> None:
        """Add a peer, if its routing id is known."""
        probe(self, pipe)
        if pipe.pending is None or pipe.given_id:
            self._identify(pipe)

    def pipe_connected(self, pipe: Pipe) -> None:
        """Add a peer whose bind made its routing id known."""
        if pipe.state is PipeState.ACTIVE:
            self._identify(pipe)

    def _identify(self, pipe: Pipe) -> None:
        if pipe not in self._id_of:
            routing_id = pipe.given_id or pipe.routing_id or self._automatic_id()
            if routing_id in self._by_id:
                if not self.options[SocketOption.ROUTER_HANDOVER]:
                    return  # ignore a peer whose id is taken
                self._reassign_id(routing_id)
            self._by_id[routing_id] = pipe
            self._id_of[pipe] = routing_id
        self._fair_queue.attach(pipe)

    def _automatic_id(self) -> bytes:
        # No id given by a program may begin with a zero byte, but for CONNECT_ROUTING_ID.
        while True:
            new_id = b"\0" + (next(self._id_counter) & 0xFFFFFFFF).to_bytes(4, "big")
            if new_id not in self._by_id:
                return new_id

    def _reassign_id(self, routing_id: bytes) -> None:
        old = self._by_id[routing_id]
        if self._is_receiving(old):
            # Ends with the message: the parts of a message stay together, behind the old id.
            self._replaced, self._replaced_id = old, routing_id
        else:
            old.terminate(True)
        new_id = self._automatic_id()
        del self._by_id[routing_id]
        self._by_id[new_id] = old
        self._id_of[old] = new_id
        if old is self._send_pipe:
            self._send_pipe = None

    def _is_receiving(self, pipe: Pipe) -> bool:
        """Whether a message of a pipe is being received, or was seen by a poll."""
        fair_queue = self._fair_queue
        if self._prefetched is not None or fair_queue.mid_message:
            return pipe is fair_queue.last_pipe
        return fair_queue.is_next(pipe)

    def xforget(self, pipe: Pipe) -> None:
        if pipe is self._fair_queue.last_pipe:
            self._prefetched = self._prefetched_id = None

    def xterminated(self, pipe: Pipe) -> None:
        if pipe is self._replaced:
            self._replaced = None
        routing_id = self._id_of.get(pipe)
        if routing_id is not None:
            del self._by_id[routing_id]
            del self._id_of[pipe]
        if (
            pipe is self._fair_queue.last_pipe
            and self._prefetched is not None
            and more_of(self._prefetched)
        ):
            self._prefetched = self._prefetched_id = None  # the rest will not come
        self._fair_queue.terminated(pipe)
        if pipe is self._send_pipe:
            self._send_pipe = None

    def xrecv(self) -> Part | None:
        """Return a routing id, then the parts of the message."""
        if not self._prefetch():
            return None
        if self._prefetched_id is not None:
            routing_id = MessagePart(self._prefetched_id, True)
            self._prefetched_id = None
            return routing_id
        part = self._prefetched
        self._end_replaced(part)
        # The part must not be lost: no call from here on.
        self._prefetched = None
        return part

    def _end_replaced(self, part: Part | None) -> None:
        """End a connection whose id was taken over, after its message."""
        pipe = self._replaced
        if pipe is not None and part is not None and not more_of(part):
            pipe.terminate(True)
            self._replaced = None

    def _prefetch(self) -> bool:
        if self._prefetched is None:
            fair_queue = self._fair_queue
            part = fair_queue.recv()
            # The part must not be lost: no call from here on.
            if part is not None and fair_queue.at_message_start:
                pipe = fair_queue.last_pipe
                assert pipe is not None
                is_replaced = pipe is self._replaced
                self._prefetched_id = self._replaced_id if is_replaced else self._id_of[pipe]
            self._prefetched = part
        return self._prefetched is not None

    def xhas_in(self) -> bool:
        return self._prefetched is not None or self._fair_queue.has_in()

    def xsend(self, part: Part) -> Sent:
        """Take a routing id, then the parts of the message to that peer.

        For an unknown id or a peer without room, drops the message; with ROUTER_MANDATORY,
        EHOSTUNREACH or AGAIN.
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
                if not pipe.is_full():  # so the connection is ending
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
        more = more_of(part)
        if pipe is not None and not pipe.write(part):
            pipe = None
        self._mid_message = more
        self._send_pipe = pipe if more else None
        if pipe is not None and not more:
            pipe.flush()

    def xrollback(self) -> None:
        if self._send_pipe is not None:
            self._send_pipe.rollback()
        self._mid_message = False
        self._send_pipe = None

    def xhas_out(self) -> bool:
        """Return True; with ROUTER_MANDATORY, whether some peer has room."""
        if not self._is_mandatory():
            return True
        return any(pipe.check_write() for pipe in self._id_of)


def probe(socket: SocketBase, pipe: Pipe) -> None:
    """Send a new peer an empty message, once, if PROBE_ROUTER is set."""
    if socket.options[SocketOption.PROBE_ROUTER]:
        if not pipe.msgs_written:
            pipe.write(b"")
        pipe.flush()
