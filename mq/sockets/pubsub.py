"""PUB, SUB, XPUB and XSUB: one to many, by topic.  Owned by the socket's thread.

A subscription travels from the subscriber to the publisher as a message: a byte 1 (0 to
unsubscribe), then the topic.
"""

from collections import deque
from typing import TYPE_CHECKING, ClassVar

from mq.constants import SocketOption, SocketType
from mq.core.options import Value
from mq.pipes.distributor import Distributor
from mq.pipes.fair_queue import FairQueue
from mq.pipes.load_balancer import AGAIN, OK, Sent
from mq.pipes.message import Part, bytes_of, more_of
from mq.pipes.pipe import Pipe
from mq.pipes.subscriptions import Subscriptions
from mq.sockets.base import SocketBase

if TYPE_CHECKING:
    from mq.core.context_core import Ctx

_SUBSCRIBE = 1
_UNSUBSCRIBE = 0


class Xpub(SocketBase):
    """Publishes, and receives the subscriptions of its peers."""

    socket_type: ClassVar[SocketType] = SocketType.XPUB

    def __init__(self, ctx: "Ctx", slot: int) -> None:
        super().__init__(ctx, slot)
        self._dist = Distributor()
        self._subscriptions: Subscriptions[Pipe] = Subscriptions()
        self._received: deque[tuple[Part, Pipe | None]] = deque()
        self._inside: set[Pipe] = set()  # peers in the middle of a message of their own
        self._last: Pipe | None = None  # who sent what was received last; XPUB_MANUAL acts on it
        self._welcome = b""

    # -- peers -------------------------------------------------------------------------------

    def xattach(self, pipe: Pipe) -> None:
        """One more subscriber, who may have subscribed already."""
        self._dist.attach(pipe)
        if self._welcome:
            pipe.write_regardless(self._welcome)
            pipe.flush()
        self.xread_activated(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Note that it has room again."""
        self._dist.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """One less, and its subscriptions with it."""
        self._dist.terminated(pipe)
        self._inside.discard(pipe)
        if pipe is self._last:
            self._last = None
        for topic in self._subscriptions.remove_holder(pipe):
            self._report(_UNSUBSCRIBE, topic, None)

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that it has subscribed, unsubscribed, or sent a message of its own."""
        while (part := pipe.read()) is not None:
            data = bytes_of(part)
            inside = pipe in self._inside
            if more_of(part):
                self._inside.add(pipe)
            else:
                self._inside.discard(pipe)
            if inside or data[:1] not in (b"\0", b"\1"):
                self._take(part, pipe)
            else:
                self._change(data[0], data[1:], pipe)

    def _change(self, kind: int, topic: bytes, pipe: Pipe) -> None:
        options = self.options
        if options[SocketOption.XPUB_MANUAL]:
            news = True
        elif kind == _SUBSCRIBE:
            news = self._subscriptions.add(topic, pipe)
            news |= bool(options[SocketOption.XPUB_VERBOSE] or options[SocketOption.XPUB_VERBOSER])
        else:
            news = self._subscriptions.remove(topic, pipe, every=True)
            news |= bool(options[SocketOption.XPUB_VERBOSER])
        if news:
            self._report(kind, topic, pipe)

    def _report(self, kind: int, topic: bytes, pipe: Pipe | None) -> None:
        self._take(bytes([kind]) + topic, pipe)

    def _take(self, part: Part, pipe: Pipe | None) -> None:
        self._received.append((part, pipe))

    # -- messages ----------------------------------------------------------------------------

    def xsend(self, part: Part) -> Sent:
        """Send to all whose subscriptions match the first part, and who have room."""
        if self._dist.inside:
            self._dist.send(part, ())
            return OK
        chosen = self._subscriptions.holders(bytes_of(part))
        if self.options[SocketOption.INVERT_MATCHING]:
            chosen = dict.fromkeys(p for p in self._dist.pipes if p not in chosen)
        if self.options[SocketOption.XPUB_NODROP] and not self._dist.room(chosen):
            return AGAIN
        self._dist.send(part, chosen)
        return OK

    def xhas_out(self) -> bool:
        """Say yes, always: who has no room misses the message."""
        return True

    def xrecv(self) -> Part | None:
        """Return a subscription that is news, or a message of a subscriber's own."""
        if not self._received:
            return None
        part, self._last = self._received.popleft()
        return part

    def xhas_in(self) -> bool:
        """Whether a subscriber was heard."""
        return bool(self._received)

    def xset(self, option: int, value: Value) -> bool:
        """With XPUB_MANUAL, SUBSCRIBE and UNSUBSCRIBE speak for the peer received from last."""
        if not isinstance(value, bytes):
            return False
        if option == SocketOption.XPUB_WELCOME_MSG:
            self._welcome = value
            return True
        if not self.options[SocketOption.XPUB_MANUAL]:
            return False
        if option == SocketOption.SUBSCRIBE and self._last is not None:
            self._subscriptions.add(value, self._last)
        elif option == SocketOption.UNSUBSCRIBE and self._last is not None:
            self._subscriptions.remove(value, self._last, every=True)
        return option in (SocketOption.SUBSCRIBE, SocketOption.UNSUBSCRIBE)


class Pub(Xpub):
    """Publishes, and keeps subscriptions to itself."""

    socket_type: ClassVar[SocketType] = SocketType.PUB

    def xattach(self, pipe: Pipe) -> None:
        """One more subscriber.  No reader waits here for what a leaving one has still to say."""
        pipe.delay = False
        super().xattach(pipe)

    def _take(self, part: Part, pipe: Pipe | None) -> None:
        pass

    def xrecv(self) -> Part | None:
        """ENOTSUP."""
        return SocketBase.xrecv(self)


class Xsub(SocketBase):
    """Receives what is published, and sends subscriptions as messages."""

    socket_type: ClassVar[SocketType] = SocketType.XSUB
    default_linger: ClassVar[int] = 0

    def __init__(self, ctx: "Ctx", slot: int) -> None:
        super().__init__(ctx, slot)
        self._fq = FairQueue()
        self._dist = Distributor()
        self._subscriptions: Subscriptions[None] = Subscriptions()
        self._filtering = False  # whether to drop what no subscription matches
        self._wanted = True  # the message being received matches
        self._prefetched: Part | None = None

    # -- peers -------------------------------------------------------------------------------

    def xattach(self, pipe: Pipe) -> None:
        """One more publisher, told at once what is subscribed to."""
        self._fq.attach(pipe)
        self._dist.attach(pipe)
        for topic in self._subscriptions:
            pipe.write_regardless(b"\1" + topic)
        pipe.flush()

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that it has published."""
        self._fq.activated(pipe)

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Note that it has room again."""
        self._dist.activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """One less."""
        self._fq.terminated(pipe)
        self._dist.terminated(pipe)

    # -- subscribing -------------------------------------------------------------------------

    def xsend(self, part: Part) -> Sent:
        """Take a byte 1 or 0 and a topic as a subscription or its end; pass all else on."""
        data = bytes_of(part)
        if self._dist.inside or data[:1] not in (b"\0", b"\1"):
            self._dist.send(part, self._dist.pipes)
        else:
            self._subscribe(data[0], data[1:])
        return OK

    def _subscribe(self, kind: int, topic: bytes) -> None:
        if kind == _SUBSCRIBE:
            self._subscriptions.add(topic, None)
        elif not self._subscriptions.remove(topic, None):
            return  # still subscribed to, or never was
        # Not subject to the HWM: a subscription that got lost would never be made up for.
        for pipe in self._dist.pipes:
            pipe.write_regardless(bytes([kind]) + topic)
            pipe.flush()

    def xhas_out(self) -> bool:
        """Say yes, always."""
        return True

    # -- receiving ---------------------------------------------------------------------------

    def xrecv(self) -> Part | None:
        """Return the next part that is wanted."""
        part = self._prefetched
        if part is not None:
            self._prefetched = None
            return part
        while (part := self._fq.recv()) is not None:
            if not self._filtering:
                return part
            if self._fq.began:
                matches = self._subscriptions.matches(bytes_of(part))
                self._wanted = matches != bool(self.options[SocketOption.INVERT_MATCHING])
            if self._wanted:
                return part
        return None

    def xhas_in(self) -> bool:
        """Whether something wanted was published."""
        if self._prefetched is None:
            self._prefetched = self.xrecv()
        return self._prefetched is not None

    def xsource(self) -> Pipe | None:
        """Where the last part came from."""
        return self._fq.last


class Sub(Xsub):
    """Receives what is published and subscribed to."""

    socket_type: ClassVar[SocketType] = SocketType.SUB

    def __init__(self, ctx: "Ctx", slot: int) -> None:
        super().__init__(ctx, slot)
        self._filtering = True

    def xsend(self, part: Part) -> Sent:
        """ENOTSUP."""
        return SocketBase.xsend(self, part)

    def xhas_out(self) -> bool:
        """Never."""
        return False

    def xset(self, option: int, value: Value) -> bool:
        """SUBSCRIBE and UNSUBSCRIBE."""
        if not isinstance(value, bytes):
            return False
        if option == SocketOption.SUBSCRIBE:
            self._subscribe(_SUBSCRIBE, value)
        elif option == SocketOption.UNSUBSCRIBE:
            self._subscribe(_UNSUBSCRIBE, value)
        return option in (SocketOption.SUBSCRIBE, SocketOption.UNSUBSCRIBE)
