"""WaitingMessages: large messages wait for other clients' small messages.

A large message takes long to decode and handle. So while several clients have requests, each sends
little ahead at a time. Its further or large messages are set aside undecoded, with all later ones:
a client's requests stay in order. Clients, connections and keys take turns (see `FairQueue`). A
connection with much waiting data is left unread. Network thread alone.
"""

import contextlib
from typing import TYPE_CHECKING, Final

from purgatory.service.server.fair_queue import FairQueue
from purgatory.service.server.network.connections import Connection
from purgatory.service.server.network.router_socket import descriptor_of
from purgatory.service.server.network.unread_connections import UnreadConnections

if TYPE_CHECKING:
    import zmq

#: Bytes that a client sends ahead at a time.
AHEAD_BYTES: Final = 4096
#: The cost of a message beside its bytes.
MESSAGE_BYTES: Final = 256
#: With more waiting bytes a connection is left unread, until it has fewer than the second.
MAX_WAITING: Final = 1 << 20
FEW_WAITING: Final = 512 << 10


class WaitingMessages:
    """Messages with their connections; `bytes`: all sizes."""

    def __init__(self, unread: UnreadConnections) -> None:
        self._unread = unread
        self._queue: FairQueue[tuple[Connection, bytes]] = FairQueue()
        self._gates: dict[Connection, ReadGate] = {}  # of connections with waiting messages
        # Bytes gone ahead this time, by client and route.
        self._ahead: dict[str | bytes, int] = {}
        self.bytes: int = 0
        #: Whether several clients have requests.
        self.is_shared: bool = False

    def begin(self, *, is_shared: bool) -> None:
        """Begin a turn: each client and connection may send a little ahead."""
        self.is_shared = is_shared
        self._ahead.clear()

    def is_for(self, connection: Connection, size: int) -> bool:
        """Whether a message must wait; else count it as gone ahead."""
        client, route = connection.client, connection.route
        if self.bytes > 0 and self._queue.count(client, route) > 0:
            return True
        if not self.is_shared:
            return False
        size += MESSAGE_BYTES
        return max(self._add_ahead(client, size), self._add_ahead(route, size)) > AHEAD_BYTES

    def _add_ahead(self, name: str | bytes, size: int) -> int:
        ahead = self._ahead[name] = self._ahead.get(name, 0) + size
        return ahead

    def append(self, connection: Connection, frame: "zmq.Frame") -> None:
        """Add a message after its client's messages."""
        message = frame.bytes
        size = len(message) + MESSAGE_BYTES
        gate = self._gates.get(connection)
        if gate is None:
            gate = self._gates[connection] = ReadGate(self._unread, descriptor_of(frame))
        gate.add(size)
        self.bytes += size
        route, key = connection.route, connection.user
        self._queue.append(connection.client, (connection, message), size, route=route, key=key)

    def popleft(self) -> tuple[Connection, bytes]:
        """Remove the next message. Raises IndexError without any."""
        connection, message = self._queue.popleft()
        size = len(message) + MESSAGE_BYTES
        self.bytes -= size
        gate = self._gates[connection]
        gate.remove(size)
        if not gate.bytes:
            del self._gates[connection]
        return connection, message


class ReadGate:
    """Leaves a connection unread while much of its data waits; not without a `descriptor`."""

    def __init__(self, unread: UnreadConnections, descriptor: int) -> None:
        self._unread = unread
        self._descriptor = descriptor
        self.bytes: int = 0  # waiting ones
        self.is_open: bool = True

    def add(self, size: int) -> None:
        """Count waiting bytes."""
        self.bytes += size
        if self.is_open and self.bytes > MAX_WAITING and self._descriptor >= 0:
            self.is_open = False
            with contextlib.suppress(OSError):  # the connection has ended, or no filters exist
                self._unread.leave(self._descriptor, self)

    def remove(self, size: int) -> None:
        """Count bytes that wait no longer."""
        self.bytes -= size
        if not self.is_open and self.bytes < FEW_WAITING:
            self.is_open = True
            self._unread.read(self._descriptor, self)
