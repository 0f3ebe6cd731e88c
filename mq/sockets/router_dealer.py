"""DEALER and ROUTER.  Who may call it: see `mq.sockets.base`."""

from __future__ import annotations

from errno import EHOSTUNREACH
from typing import TYPE_CHECKING

from mq.constants import SocketOption as Opt
from mq.constants import SocketType
from mq.errors import ZMQError
from mq.fq import FairQueue
from mq.lb import LoadBalancer
from mq.message import MORE, ROUTING_ID, Part, payload_bytes
from mq.sockets.base import SocketBase

if TYPE_CHECKING:
    from mq.ctx import Ctx
    from mq.pipe import Pipe
    from mq.reaper import Reaper


class Dealer(SocketBase):
    """Sends to its peers in turn, and receives from them in turn."""

    kind = SocketType.DEALER
    conflatable = True

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._fq = FairQueue()
        self._lb = LoadBalancer()

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:  # noqa: ARG002
        """See `SocketBase`."""
        if self.options.number(Opt.PROBE_ROUTER):
            pipe.write((b"", 0))
            pipe.flush()
        self._fq.attach(pipe)
        self._lb.attach(pipe)

    def xread_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._fq.activated(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._lb.activated(pipe)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._fq.terminated(pipe)
        self._lb.terminated(pipe)

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        return self._lb.send(part)

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        return self._fq.recv()

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return self._fq.has_in()

    def xhas_out(self) -> bool:
        """See `SocketBase`."""
        return self._lb.has_out()


class Router(SocketBase):
    """Names the peer in front of each message received, and sends to the peer named in front."""

    kind = SocketType.ROUTER
    wants_routing_id = True

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._fq = FairQueue()
        self._anonymous: dict[Pipe, None] = {}  # have not named themselves yet
        self._peers: dict[bytes, Pipe] = {}
        self._next_id = 0
        self._prefetched: Part | None = None  # the first part, while its sender's name is due
        self._prefetched_id = b""
        self._id_sent = False
        self._sending_more = False
        self._target: Pipe | None = None  # None while sending: the message is dropped

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:
        """See `SocketBase`."""
        name = self.options.data(Opt.CONNECT_ROUTING_ID) if connecting else b""
        if name:
            self.options.store(Opt.CONNECT_ROUTING_ID, b"")
        if self.options.number(Opt.PROBE_ROUTER):
            pipe.write((b"", 0))
            pipe.flush()
        if self._identify(pipe, name):
            self._fq.attach(pipe)
        else:
            self._anonymous[pipe] = None

    def _identify(self, pipe: Pipe, name: bytes) -> bool:
        """Learn what the peer calls itself; False while it has not said so, or may not be heard."""
        first = pipe.read()
        if first is None:
            return False
        name = name or (payload_bytes(first[0]) if first[1] & ROUTING_ID else b"")
        if not name:
            self._next_id += 1
            name = b"\0" + self._next_id.to_bytes(4, "big")
        elif name in self._peers and not self._hand_over(name):
            return False
        pipe.peer_routing_id = name
        self._peers[name] = pipe
        return True

    def _hand_over(self, name: bytes) -> bool:
        if not self.options.number(Opt.ROUTER_HANDOVER):
            return False
        # The old peer keeps a name nobody can use, until it is gone.
        old = self._peers.pop(name)
        self._next_id += 1
        old.peer_routing_id = b"\0" + self._next_id.to_bytes(4, "big")
        self._peers[old.peer_routing_id] = old
        old.terminate(True)
        if self._target is old:
            self._target = None
        return True

    def xread_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        if pipe not in self._anonymous:
            self._fq.activated(pipe)
        elif self._identify(pipe, b""):
            del self._anonymous[pipe]
            self._fq.attach(pipe)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._anonymous.pop(pipe, None)
        if self._peers.get(pipe.peer_routing_id) is pipe:
            del self._peers[pipe.peer_routing_id]
        self._fq.terminated(pipe)
        if pipe is self._target:
            self._target = None

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        if not self._sending_more:
            return self._address(part)
        self._sending_more = bool(part[1] & MORE)
        pipe = self._target
        if pipe is not None:
            if not pipe.write(part):
                pipe.rollback()
                self._target = None
            elif not self._sending_more:
                pipe.flush()
        if not self._sending_more:
            self._target = None
        return True

    def _address(self, part: Part) -> bool:
        if not part[1] & MORE:
            return True  # a name with nothing to send is dropped
        pipe = self._peers.get(payload_bytes(part[0]))
        mandatory = self.options.number(Opt.ROUTER_MANDATORY)
        if pipe is None and mandatory:
            raise ZMQError(EHOSTUNREACH)
        if pipe is not None and not pipe.check_write():
            if mandatory:
                return False
            pipe = None
        self._target = pipe
        self._sending_more = True
        return True

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        if self._prefetched is not None:
            return self._deliver_prefetched()
        sender = self._fq.last if self._fq.more else None
        part = self._fq.recv()
        if part is None:
            return None
        if sender is not None and self._fq.last is sender:
            return part  # the message goes on
        self._prefetch(part)
        return self._deliver_prefetched()

    def _prefetch(self, part: Part) -> None:
        assert self._fq.last is not None
        self._prefetched = part
        self._prefetched_id = self._fq.last.peer_routing_id
        self._id_sent = False

    def _deliver_prefetched(self) -> Part:
        part = self._prefetched
        assert part is not None
        if not self._id_sent:
            self._id_sent = True
            return (self._prefetched_id, MORE)
        self._prefetched = None
        return part

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return self._prefetched is not None or self._fq.has_in()

    def xhas_out(self) -> bool:
        """True: what cannot be sent is dropped; with ROUTER_MANDATORY, if any peer has room."""
        if not self.options.number(Opt.ROUTER_MANDATORY):
            return True
        return any(pipe.check_write() for pipe in self._peers.values())

    def drop_message(self) -> None:
        """Take back the parts sent of a message that will not be completed."""
        if self._target is not None:
            self._target.rollback()
        self._target = None
        self._sending_more = False
