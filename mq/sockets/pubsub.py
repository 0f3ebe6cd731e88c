"""PUB, SUB, XPUB and XSUB: one to many, by topic. For the socket's thread.

A subscription is a message to the publisher: a byte 1 (0 to unsubscribe), then the topic.
"""

from collections import deque
from typing import ClassVar

from mq.constants import Errno, SocketOption, SocketType
from mq.core.context_core import ContextCore
from mq.core.options import Value
from mq.errors import ZMQError
from mq.pipes.distributor import Distributor
from mq.pipes.message import Part, bytes_of, more_of
from mq.pipes.pipe import Pipe
from mq.pipes.round_robin import AGAIN, OK, Sent
from mq.pipes.subscriptions import Subscriptions
from mq.sockets.base import SocketBase

_SUBSCRIBE = 1
_UNSUBSCRIBE = 0


class _Distributing(SocketBase):
    """Sends each message to all peers; a peer without room misses the message."""

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._distributor = Distributor()

    def write_activated(self, pipe: Pipe) -> None:
        self._distributor.activated(pipe)

    def xhas_out(self) -> bool:
        return True

    def xrollback(self) -> None:
        self._distributor.rollback()


class Xpub(_Distributing):
    """Publishes, and receives the subscriptions of its peers."""

    socket_type: ClassVar[SocketType] = SocketType.XPUB

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._subscriptions: Subscriptions[Pipe] = Subscriptions()
        # With XPUB_MANUAL: the requests of each peer; the program may give others.
        self._requests: Subscriptions[Pipe] = Subscriptions()
        self._received: deque[tuple[Part, Pipe | None]] = deque()
        # Peers in the middle of their own message; operations of a dict make no call.
        self._mid_message_pipes: dict[Pipe, None] = {}
        self._taken: Part | None = None  # a peer's part, not processed yet
        self._last_sender: Pipe | None = None  # of the part received last; for XPUB_MANUAL
        self._sends_to_last = False  # XPUB_MANUAL_LAST_VALUE: the next message is for that peer
        self._welcome = b""

    def xattach(self, pipe: Pipe) -> None:
        """Add a subscriber; read its subscriptions."""
        self._distributor.attach(pipe)
        if self._welcome:
            if not pipe.msgs_written:
                pipe.write_ignoring_hwm(self._welcome)
            pipe.flush()
        self.read_activated(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        self._distributor.terminated(pipe)
        self._mid_message_pipes.pop(pipe, None)
        if pipe is self._last_sender:
            self._last_sender = None
        for topic in self._requests.topics_of(pipe):
            self._queue_notification(_UNSUBSCRIBE, topic, None)
            self._requests.remove(topic, pipe, completely=True)
        for topic in self._subscriptions.topics_of(pipe):
            if self._is_end_notified(topic, pipe):
                self._queue_notification(_UNSUBSCRIBE, topic, None)
            self._subscriptions.remove(topic, pipe, completely=True)

    def _is_end_notified(self, topic: bytes, pipe: Pipe) -> bool:
        """Whether the end of the peer is reported."""
        options = self.options
        if options[SocketOption.XPUB_MANUAL]:
            return False  # the request is
        return bool(options[SocketOption.XPUB_VERBOSER]) or self._subscriptions.has_only(
            topic, pipe
        )

    def read_activated(self, pipe: Pipe) -> None:
        while True:
            if self._taken is None:
                self._taken = pipe.read()
            if self._taken is None:
                return
            self._process_taken(self._taken, pipe)

    def _process_taken(self, part: Part, pipe: Pipe) -> None:
        # Repeated after an interrupt: a part may then be queued twice for the caller.
        data = bytes_of(part)
        more = more_of(part)
        if pipe in self._mid_message_pipes or data[:1] not in (b"\0", b"\1"):
            self._queue_received(part, pipe)
        else:
            self._process_subscription(data[0], data[1:], pipe)
        # Without calls, and so without an interrupt in between.
        if more:
            self._mid_message_pipes[pipe] = None
        elif pipe in self._mid_message_pipes:
            del self._mid_message_pipes[pipe]
        self._taken = None

    def _process_subscription(self, kind: int, topic: bytes, pipe: Pipe) -> None:
        if self._is_notified(kind, topic, pipe):
            self._queue_notification(kind, topic, pipe)
        is_manual = self.options[SocketOption.XPUB_MANUAL]
        subscriptions = self._requests if is_manual else self._subscriptions
        if kind == _SUBSCRIBE:
            subscriptions.add(topic, pipe)
        else:
            subscriptions.remove(topic, pipe, completely=True)

    def _is_notified(self, kind: int, topic: bytes, pipe: Pipe) -> bool:
        options = self.options
        if options[SocketOption.XPUB_MANUAL] or options[SocketOption.XPUB_VERBOSER]:
            return True
        if kind == _SUBSCRIBE:
            return bool(options[SocketOption.XPUB_VERBOSE]) or topic not in self._subscriptions
        return self._subscriptions.has_only(topic, pipe)

    def _queue_notification(self, kind: int, topic: bytes, pipe: Pipe | None) -> None:
        self._queue_received(bytes([kind]) + topic, pipe)

    def _queue_received(self, part: Part, pipe: Pipe | None) -> None:
        self._received.append((part, pipe))

    def xsend(self, part: Part) -> Sent:
        """Send to each peer with room and a matching subscription."""
        if self._distributor.mid_message:
            self._distributor.send(part, ())
            return OK
        chosen = self._choose_subscribers(bytes_of(part))
        if self.options[SocketOption.XPUB_NODROP] and any(pipe.is_full() for pipe in chosen):
            return AGAIN
        self._distributor.send(part, chosen)
        if self._sends_to_last:
            self._last_sender = None  # later messages are for all subscribers
        return OK

    def _choose_subscribers(self, data: bytes) -> dict[Pipe, None]:
        chosen = self._subscriptions.matching_subscribers(data)
        if self._sends_to_last and self.options[SocketOption.XPUB_MANUAL]:
            last = self._find_last_sender()
            if last is not None:
                chosen = {last: None} if last in chosen else {}
        if self.options[SocketOption.INVERT_MATCHING]:
            chosen = dict.fromkeys(p for p in self._distributor.pipes if p not in chosen)
        return chosen

    def _find_last_sender(self) -> Pipe | None:
        last = self._last_sender
        return last if last in self._distributor.pipes else None  # it may have gone

    def xrecv(self) -> Part | None:
        if not self._received:
            return None
        part, self._last_sender = self._received[0]
        del self._received[0]  # not popleft(): no interrupt comes here
        return part

    def xhas_in(self) -> bool:
        return bool(self._received)

    def xset(self, option: int, value: Value) -> bool:
        """Set XPUB_WELCOME_MSG; with XPUB_MANUAL also the subscriptions of the last sender."""
        if not isinstance(value, bytes):
            return self._set_number(option, value)
        if option == SocketOption.XPUB_WELCOME_MSG:
            self._welcome = value
            return True
        if not self.options[SocketOption.XPUB_MANUAL]:
            return False
        sender = self._find_last_sender()
        if option == SocketOption.SUBSCRIBE and sender is not None:
            self._subscriptions.add(value, sender)
        elif option == SocketOption.UNSUBSCRIBE and sender is not None:
            self._subscriptions.remove(value, sender, completely=True)
        return option in (SocketOption.SUBSCRIBE, SocketOption.UNSUBSCRIBE)

    def _set_number(self, option: int, value: int) -> bool:
        # As in libzmq, the option set last decides.
        implied: dict[int, tuple[int, int]] = {
            SocketOption.XPUB_VERBOSE: (SocketOption.XPUB_VERBOSER, 0),
            SocketOption.XPUB_VERBOSER: (SocketOption.XPUB_VERBOSE, value),
            SocketOption.XPUB_MANUAL_LAST_VALUE: (SocketOption.XPUB_MANUAL, value),
        }
        if option not in implied:
            return False
        self.options.set(option, value)
        self.options.set(*implied[option])
        if option == SocketOption.XPUB_MANUAL_LAST_VALUE:
            self._sends_to_last = value != 0
        return True

    def xtopics_count(self) -> int:
        return len(self._subscriptions)


class Pub(Xpub):
    """Publishes, and does not report subscriptions."""

    socket_type: ClassVar[SocketType] = SocketType.PUB

    def xattach(self, pipe: Pipe) -> None:
        """Add a subscriber; its close drops unread messages."""
        pipe.delay = False
        super().xattach(pipe)

    def _queue_received(self, part: Part, pipe: Pipe | None) -> None:
        pass

    def xrecv(self) -> Part | None:
        raise ZMQError(Errno.ENOTSUP)


class Xsub(_Distributing):
    """Receives what is published, and sends subscriptions as messages."""

    socket_type: ClassVar[SocketType] = SocketType.XSUB
    default_linger: ClassVar[int] = 0

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._subscriptions: Subscriptions[None] = Subscriptions()
        self._filtering = False  # whether to drop messages that no subscription matches
        self._current_matches = True  # whether the message being received matches
        self._prefetched: Part | None = None  # a part taken and not returned yet
        self._is_checked = False  # whether that matches

    def xattach(self, pipe: Pipe) -> None:
        """Add a publisher, and send it the current subscriptions."""
        self._fair_queue.attach(pipe)
        self._distributor.attach(pipe)
        for topic in list(self._subscriptions)[pipe.msgs_written :]:  # each once
            pipe.write_ignoring_hwm(b"\1" + topic)
        pipe.flush()

    def xforget(self, pipe: Pipe) -> None:
        if pipe is self._fair_queue.last_pipe:
            self._prefetched = None

    def xterminated(self, pipe: Pipe) -> None:
        self._fair_queue.terminated(pipe)
        self._distributor.terminated(pipe)

    def xsend(self, part: Part) -> Sent:
        """Subscribe (byte 1, topic) or unsubscribe (byte 0); pass all else on."""
        data = bytes_of(part)
        if self._distributor.mid_message or data[:1] not in (b"\0", b"\1"):
            self._distributor.send(part, self._distributor.pipes)
        else:
            self._update_subscription(data[0], data[1:])
        return OK

    def _update_subscription(self, kind: int, topic: bytes) -> None:
        if kind == _SUBSCRIBE:
            self._subscriptions.add(topic, None)
        elif not self._subscriptions.remove(topic, None):
            return  # still subscribed to, or never was
        # Regardless of the HWM: a lost subscription would never be repeated.
        for pipe in self._distributor.pipes:
            pipe.write_ignoring_hwm(bytes([kind]) + topic)
            pipe.flush()

    def xrecv(self) -> Part | None:
        """Return the next part of a message that a subscription matches."""
        if not self._filtering:
            return self._fair_queue.recv()
        if not self._fetch():
            return None
        part = self._prefetched
        self._prefetched = None
        return part

    def _fetch(self) -> bool:
        # Take parts until `_prefetched` holds a matching part.
        while self._prefetched is None or not self._is_checked:
            if self._prefetched is None:
                self._prefetched = self._fair_queue.recv()
                self._is_checked = False
            if self._prefetched is None:
                return False
            matches = self._matches(self._prefetched)
            # Without calls: after an interrupt before this, the part is checked again.
            self._current_matches = self._is_checked = matches
            if not matches:
                self._prefetched = None
        return True

    def _matches(self, part: Part) -> bool:
        if not self._fair_queue.at_message_start:
            return self._current_matches
        matches = self._subscriptions.matches(bytes_of(part))
        return matches != bool(self.options[SocketOption.INVERT_MATCHING])

    def xhas_in(self) -> bool:
        return self._fetch() if self._filtering else self._fair_queue.has_in()

    def xtopics_count(self) -> int:
        return len(self._subscriptions)


class Sub(Xsub):
    """Receives the messages matching its subscriptions."""

    socket_type: ClassVar[SocketType] = SocketType.SUB

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self._filtering = True

    def xsend(self, part: Part) -> Sent:
        """Raise ENOTSUP."""
        return SocketBase.xsend(self, part)

    def xhas_out(self) -> bool:
        """Return False: a SUB does not send."""
        return False

    def xset(self, option: int, value: Value) -> bool:
        """Subscribe or unsubscribe."""
        if not isinstance(value, bytes):
            return False
        if option == SocketOption.SUBSCRIBE:
            self._update_subscription(_SUBSCRIBE, value)
        elif option == SocketOption.UNSUBSCRIBE:
            self._update_subscription(_UNSUBSCRIBE, value)
        return option in (SocketOption.SUBSCRIBE, SocketOption.UNSUBSCRIBE)
