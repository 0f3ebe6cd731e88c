"""FloodGates: leave connections unread that have too many messages under way.

libzmq queues all frames of each connection, without a bound (see `router_socket`). The kernel tells
how many bytes a connection received (TCP_INFO), and the network thread counts the bytes that it
takes. If it has not taken all bytes of a moment by MOST_UNREAD messages later, more messages are
under way. Then the kernel drops what arrives, and the peer sends it again, until the thread has
taken the connection's messages, or all queues are empty. Linux and TCP only.

Any thread may call `close`; everything else is for the network thread.
"""

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from purgatory.service.server.network.router_socket import descriptor_of, received_bytes
from purgatory.service.server.network.unread_connections import UnreadConnections

if TYPE_CHECKING:
    import zmq

#: Messages that a connection may have under way. Clients of this package have fewer, see
MOST_UNREAD: Final = 32
# Bytes that may be left: heartbeats and the handshake are never taken.
_SLACK_BYTES: Final = 64 << 10
# What ZMTP adds to a short frame, and to a long one; what CURVE adds.
_SHORT_HEADER: Final = 2
_LONG_HEADER: Final = 9
_LONG_BYTES: Final = 256
_CURVE_BYTES: Final = 33
# A gate is closed for so many seconds at least: by then libzmq has read what the kernel had.
CLOSED_S: Final = 0.02
# The latest connections that are remembered.
_CONNECTIONS: Final = 10_000


class _Peer:
    """The figures of a connection: bytes taken, and due `left` messages later."""

    def __init__(self) -> None:
        self.taken: int = 0
        self.left: int = 1
        self.due: int = 0
        self.untold: int = 0  # bytes received in no message


class FloodGates:
    """The gates of all connections.

    `is_encrypted`: whether CURVE wraps each frame. `received` returns the bytes of a descriptor.
    """

    def __init__(
        self,
        unread: UnreadConnections,
        *,
        is_encrypted: bool = False,
        received: Callable[[int], int] = received_bytes,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unread = unread
        self._added = _CURVE_BYTES if is_encrypted else 0
        self._received = received
        self._now = now
        self._peers: OrderedDict[bytes, _Peer] = OrderedDict()  # by route
        #: How many connections have brought a message.
        self.arrivals: int = 0
        #: Whether memory was full at the watchdog's last look. The watchdog writes, any thread
        #: reads.
        self.is_memory_full: bool = False
        #: Bytes taken by descriptor, of all its connections; any thread reads it.
        self.taken: dict[int, int] = {}
        #: Closed gates by descriptor: since when, the bytes of `taken` that open the gate, and the
        #: peer's figures.
        self.closed: dict[int, tuple[float, int, _Peer | None]] = {}
        #: How often all queues were found empty, and whether the last time. Any thread reads these.
        self.drains: int = 0
        self.is_drained: bool = False

    def note(self, route: bytes, frame: "zmq.Frame", others: "list[bytes]") -> None:
        """Note a taken message: its first frame, and the others."""
        size = self._wire_bytes(len(frame))
        for other in others:
            size += self._wire_bytes(len(other))
        descriptor = descriptor_of(frame)
        self.taken[descriptor] = self.taken.get(descriptor, 0) + size
        peer = self._peers.get(route)
        if peer is None:
            peer = self._add(route)
        peer.taken += size
        peer.left -= 1
        if peer.left == 0:
            self._check(peer, descriptor)

    def _wire_bytes(self, size: int) -> int:
        size += self._added
        return size + (_SHORT_HEADER if size < _LONG_BYTES else _LONG_HEADER)

    def _add(self, route: bytes) -> _Peer:
        self.arrivals += 1
        if len(self._peers) >= _CONNECTIONS:
            self._peers.popitem(last=False)
        peer = self._peers[route] = _Peer()
        return peer

    def _check(self, peer: _Peer, descriptor: int) -> None:
        """Close the gate if due bytes are not taken; note what is due next."""
        peer.left = MOST_UNREAD
        received = self._received(descriptor)
        if received < peer.due:  # another connection has the route, or the descriptor
            peer.taken, peer.untold = max(received, 0), 0
        elif peer.due - peer.taken - peer.untold > _SLACK_BYTES:
            self.close(descriptor, received - peer.taken - peer.untold, peer)
        peer.due = max(received, 0)
        peer.untold = min(peer.untold, peer.due - peer.taken)

    def close(self, descriptor: int, unread: int, peer: _Peer | None = None) -> None:
        """Leave a connection unread; `unread`: bytes received and not taken.

        Does nothing without filters, or on an ended connection.
        """
        if descriptor in self.closed:
            return
        with contextlib.suppress(OSError, ValueError):
            self._unread.leave(descriptor, self)
            due = self.taken.get(descriptor, 0) + unread - _SLACK_BYTES
            self.closed[descriptor] = self._now(), due, peer

    def open(self, *, is_drained: bool) -> None:
        """Open the gates whose messages are taken, or all if drained."""
        self.drains += is_drained
        self.is_drained = is_drained
        if not self.closed:
            return
        latest = self._now() - CLOSED_S
        for descriptor, (since, due, peer) in list(self.closed.items()):
            if since <= latest and (is_drained or self.taken.get(descriptor, 0) >= due):
                del self.closed[descriptor]
                if is_drained and peer is not None:
                    peer.untold = max(0, self._received(descriptor) - peer.taken)
                self._unread.read(descriptor, self)
