"""FloodGates: leave connections with too many messages under way unread.

libzmq queues all frames of each connection, without a bound (see `router_socket`). The kernel tells
how many bytes a connection received (TCP_INFO), and the network thread counts the bytes that it
takes. If it has not taken all bytes of a moment by MOST_UNREAD messages later, more messages are
under way. Then the kernel drops what arrives, and the peer sends it again, until the thread has
taken the connection's messages, or all queues are empty. Linux and TCP only.

Any thread may call `close` and `taken`; all else is for the network thread.
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

#: Messages that a connection may have under way; this package's clients have fewer.
MOST_UNREAD: Final = 32
# Bytes that may be left: heartbeats and the handshake.
_SLACK_BYTES: Final = 64 << 10
# What ZMTP adds to a short and a long frame; what CURVE adds.
_SHORT_HEADER: Final = 2
_LONG_HEADER: Final = 9
_LONG_BYTES: Final = 256
_CURVE_BYTES: Final = 33
# A gate is closed for so many seconds at least: then libzmq has read what the kernel had.
CLOSED_S: Final = 0.02
# Arrivals of the latest routes are counted once.
_ROUTES: Final = 10_000


class _Peer:
    """Bytes taken of all connections of a descriptor, due `left` messages later.

    Not of a route: peers choose any number of routes.
    """

    def __init__(self) -> None:
        self.taken: int = 0
        self.left: int = 1
        self.due: int = 0
        # Bytes received in no message, less those that earlier connections took.
        self.untold: int = 0


class FloodGates:
    """The gates of all connections; `is_encrypted`: CURVE wraps each frame."""

    def __init__(
        self,
        unread: UnreadConnections,
        *,
        is_encrypted: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unread = unread
        self._added = _CURVE_BYTES if is_encrypted else 0
        self._now = now
        self._peers: dict[int, _Peer] = {}  # by descriptor
        self._routes: OrderedDict[bytes, None] = OrderedDict()
        #: Connections that have brought a message.
        self.arrivals: int = 0
        #: Whether memory was full at the watchdog's last look; for any thread.
        self.is_memory_full: bool = False
        #: Closed gates by descriptor: since when, and the taken bytes at which to open.
        self.closed: dict[int, tuple[float, int]] = {}
        #: How often all queues were empty, and whether they were last; for any thread.
        self.drains: int = 0
        self.is_drained: bool = False

    def note(self, route: bytes, frame: "zmq.Frame", others: "list[bytes]") -> None:
        """Note the frames of a taken message."""
        size = self._wire_bytes(len(frame))
        for other in others:
            size += self._wire_bytes(len(other))
        descriptor = descriptor_of(frame)
        peer = self._peers.get(descriptor)
        if peer is None:
            peer = self._peers[descriptor] = _Peer()
        if route not in self._routes:
            self._add(route)
            peer.left = 1
        peer.taken += size
        peer.left -= 1
        if peer.left == 0:
            self._check(peer, descriptor)

    def taken(self) -> dict[int, int]:
        """Return taken bytes by descriptor; any thread."""
        return {descriptor: peer.taken for descriptor, peer in list(self._peers.items())}

    def _wire_bytes(self, size: int) -> int:
        size += self._added
        return size + (_SHORT_HEADER if size < _LONG_BYTES else _LONG_HEADER)

    def _add(self, route: bytes) -> None:
        self.arrivals += 1
        if len(self._routes) >= _ROUTES:
            self._routes.popitem(last=False)
        self._routes[route] = None

    def _check(self, peer: _Peer, descriptor: int) -> None:
        """Close the gate if due bytes are not taken; set what is due next."""
        peer.left = MOST_UNREAD
        received = max(received_bytes(descriptor), 0)
        if received < peer.due:  # another connection has the descriptor
            peer.untold = received - peer.taken
        elif peer.due - peer.taken - peer.untold > _SLACK_BYTES:
            self.close(descriptor, received - peer.taken - peer.untold)
        peer.due = received
        peer.untold = min(peer.untold, peer.due - peer.taken)

    def close(self, descriptor: int, unread: int) -> None:
        """Leave a connection unread; `unread`: bytes received and not taken.

        Does nothing without filters, or for an ended connection.
        """
        if descriptor in self.closed:
            return
        with contextlib.suppress(OSError, ValueError):
            self._unread.leave(descriptor, self)
            due = self._taken_of(descriptor) + unread - _SLACK_BYTES
            self.closed[descriptor] = self._now(), due

    def _taken_of(self, descriptor: int) -> int:
        peer = self._peers.get(descriptor)
        return 0 if peer is None else peer.taken

    def open(self, *, is_drained: bool) -> None:
        """Open the gates whose messages are taken, or all if drained."""
        self.drains += is_drained
        self.is_drained = is_drained
        if not self.closed:
            return
        latest = self._now() - CLOSED_S
        for descriptor, (since, due) in list(self.closed.items()):
            if since <= latest and (is_drained or self._taken_of(descriptor) >= due):
                del self.closed[descriptor]
                if is_drained and (peer := self._peers.get(descriptor)) is not None:
                    peer.due = max(received_bytes(descriptor), 0)
                    peer.untold = peer.due - peer.taken
                self._unread.read(descriptor, self)
