"""PUB, SUB, XPUB and XSUB.  Who may call it: see `mq.sockets.base`.

A subscription travels upstream as a message: the byte 1 (or 0 to end it) and the topic.
"""

from __future__ import annotations

from collections import Counter, deque
from errno import EINVAL, ENOTSUP
from typing import TYPE_CHECKING

from mq.constants import SocketOption as Opt
from mq.constants import SocketType
from mq.dist import Distributor
from mq.errors import ZMQError
from mq.fq import FairQueue
from mq.message import MORE, Part, payload_bytes
from mq.sockets.base import SocketBase
from mq.subscriptions import Subscriptions

if TYPE_CHECKING:
    from mq.ctx import Ctx
    from mq.pipe import Pipe
    from mq.reaper import Reaper


class XPub(SocketBase):
    """Sends each message to all who subscribed to it; receives the subscriptions."""

    kind = SocketType.XPUB

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._dist = Distributor()
        self._subscriptions = Subscriptions()
        self._manual: dict[Pipe, set[bytes]] = {}  # asked for, while XPUB_MANUAL
        self._upstream: deque[tuple[Pipe | None, Part]] = deque()  # what the user may receive
        self._last_pipe: Pipe | None = None  # who sent what the user received last
        self._sending_more = False
        self._reading_more: set[Pipe] = set()

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:  # noqa: ARG002
        """See `SocketBase`."""
        self._dist.attach(pipe)
        welcome = self.options.data(Opt.XPUB_WELCOME_MSG)
        if welcome:
            pipe.write((welcome, 0))
            pipe.flush()
        self.xread_activated(pipe)

    def xread_activated(self, pipe: Pipe) -> None:
        """Read all subscriptions that came."""
        while (part := pipe.read()) is not None:
            first = pipe not in self._reading_more
            if part[1] & MORE:
                self._reading_more.add(pipe)
            else:
                self._reading_more.discard(pipe)
            data = payload_bytes(part[0])
            if first and data[:1] in (b"\0", b"\1") and not part[1] & MORE:
                self._subscription(pipe, data)
            else:
                self._upstream.append((pipe, part))

    def _subscription(self, pipe: Pipe, data: bytes) -> None:
        topic, subscribing = data[1:], data[0] == 1
        number = self.options.number
        if number(Opt.XPUB_MANUAL):
            self._upstream.append((pipe, (data, 0)))
        elif subscribing:
            if self._subscriptions.add(topic, pipe) or self._verbose():
                self._upstream.append((pipe, (data, 0)))
        elif self._subscriptions.remove(topic, pipe) or number(Opt.XPUB_VERBOSER):
            self._upstream.append((pipe, (data, 0)))

    def _verbose(self) -> bool:
        return bool(self.options.number(Opt.XPUB_VERBOSE) or self.options.number(Opt.XPUB_VERBOSER))

    def xsubscription(self, option: int, value: bytes) -> None:
        """With XPUB_MANUAL: decide on what was received last.  The welcome message is stored."""
        if option == Opt.XPUB_WELCOME_MSG:
            return
        if not self.options.number(Opt.XPUB_MANUAL):
            raise ZMQError(EINVAL)
        pipe = self._last_pipe
        if pipe is None:
            return
        if option == Opt.SUBSCRIBE:
            self._subscriptions.add(value, pipe)
        else:
            self._subscriptions.remove(value, pipe)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._dist.terminated(pipe)
        self._reading_more.discard(pipe)
        if pipe is self._last_pipe:
            self._last_pipe = None
        for topic in self._subscriptions.remove_pipe(pipe):
            self._upstream.append((None, (b"\0" + topic, 0)))

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        if not self._sending_more:
            self._dist.match(self._matching(payload_bytes(part[0])))
            if self.options.number(Opt.XPUB_NODROP) and self._dist.full():
                return False
        self._dist.send(part)
        self._sending_more = bool(part[1] & MORE)
        return True

    def _matching(self, data: bytes) -> dict[Pipe, None]:
        matching = self._subscriptions.match(data)
        if self.options.number(Opt.INVERT_MATCHING):
            return {pipe: None for pipe in self._pipes if pipe not in matching}
        return matching

    def xhas_out(self) -> bool:
        """True: who is full misses the message."""
        return True

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        if not self._upstream:
            return None
        pipe, part = self._upstream.popleft()
        self._last_pipe = pipe if pipe in self._pipes else None
        return part

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return bool(self._upstream)


class Pub(XPub):
    """Sends each message to all who subscribed to it."""

    kind = SocketType.PUB
    conflatable = True

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:
        """See `SocketBase`."""
        pipe.set_nodelay()
        super().xattach_pipe(pipe, connecting=connecting)

    def xread_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        super().xread_activated(pipe)
        self._upstream.clear()

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        super().xpipe_terminated(pipe)
        self._upstream.clear()

    def xsubscription(self, option: int, value: bytes) -> None:
        """See `SocketBase`."""
        if option != Opt.XPUB_WELCOME_MSG:
            raise ZMQError(EINVAL)
        super().xsubscription(option, value)

    def xrecv(self) -> Part | None:
        """ENOTSUP."""
        raise ZMQError(ENOTSUP)

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        return False


class XSub(SocketBase):
    """Receives from all publishers; sends subscriptions."""

    kind = SocketType.XSUB
    _filtering = False

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        super().__init__(ctx, reaper)
        self._fq = FairQueue()
        self._dist = Distributor()
        self._topics: Counter[bytes] = Counter()
        self._first: Part | None = None  # read ahead by xhas_in
        self._sending_more = False

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:  # noqa: ARG002
        """See `SocketBase`."""
        self._fq.attach(pipe)
        self._dist.attach(pipe)
        for topic in self._topics:
            pipe.write((b"\1" + topic, 0))
        pipe.flush()

    def xread_activated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._fq.activated(pipe)

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """See `SocketBase`."""
        self._fq.terminated(pipe)
        self._dist.terminated(pipe)

    def xsend(self, part: Part) -> bool:
        """See `SocketBase`."""
        data = payload_bytes(part[0])
        first, self._sending_more = not self._sending_more, bool(part[1] & MORE)
        if (
            not first
            or data[:1] not in (b"\0", b"\1")
            or self._sending_more
            or self._count(data[1:], subscribing=data[0] == 1)
        ):
            self._dist.send_to_all(part)
        return True

    def _count(self, topic: bytes, *, subscribing: bool) -> bool:
        """Whether publishers must hear of it: of each subscription, but of the last end only."""
        if subscribing:
            self._topics[topic] += 1
            return True
        if topic not in self._topics:
            return False
        self._topics[topic] -= 1
        if self._topics[topic]:
            return False
        del self._topics[topic]
        return True

    def xhas_out(self) -> bool:
        """True: a subscription can be sent at any time."""
        return True

    def xrecv(self) -> Part | None:
        """See `SocketBase`."""
        part, self._first = self._first, None
        return self._next() if part is None else part

    def _next(self) -> Part | None:
        while True:
            begins = not self._fq.more
            part = self._fq.recv()
            if part is None or not begins or self._wanted(part):
                return part
            while part is not None and part[1] & MORE:
                part = self._fq.recv()

    def _wanted(self, part: Part) -> bool:
        if not self._filtering:
            return True
        data = payload_bytes(part[0])
        matches = any(data.startswith(topic) for topic in self._topics)
        return matches != bool(self.options.number(Opt.INVERT_MATCHING))

    def xhas_in(self) -> bool:
        """See `SocketBase`."""
        if self._first is None:
            self._first = self._next()
        return self._first is not None


class Sub(XSub):
    """Receives what it subscribed to."""

    kind = SocketType.SUB
    conflatable = True
    _filtering = True

    def xsubscription(self, option: int, value: bytes) -> None:
        """Subscribe, or end a subscription."""
        if option == Opt.XPUB_WELCOME_MSG:
            raise ZMQError(EINVAL)
        super().xsend(((b"\1" if option == Opt.SUBSCRIBE else b"\0") + value, 0))

    def xsend(self, part: Part) -> bool:  # noqa: ARG002
        """ENOTSUP."""
        raise ZMQError(ENOTSUP)

    def xhas_out(self) -> bool:
        """False."""
        return False
