"""LargeRequests: messages that wait until small ones of other clients have gone ahead.

The larger a message is, the longer it takes to decode it and to do what it asks for, and what is
read after it has to wait. So while several clients ask for something, a large message is set aside
when it is read, undecoded, and with it all that its client sends after it: requests of one client
stay in order. Clients take turns here as they do in the store loop (see `FairQueue`). A connection
of which too much waits is left unread (see `ReadGate`). Used by the network thread alone.
"""

from typing import TYPE_CHECKING, Final

from purgatory.service.server.network.connections import Connection
from purgatory.service.server.reads.fair_queue import FairQueue
from purgatory.service.server.sockets.read_gate import ReadGate, descriptor_of

if TYPE_CHECKING:
    import zmq

#: Messages of more bytes are large.
SMALL_BYTES: Final = 4096
#: What a message takes beside its bytes, so that small ones cannot be too many.
MESSAGE_BYTES: Final = 512


import os
CREDIT = int(os.environ.get('CR','1'))
class LargeRequests:
    """Messages with their connections; `bytes` is how much they take together."""

    def __init__(self) -> None:
        self._queue: FairQueue[tuple[Connection, bytes]] = FairQueue()
        self._gates: dict[Connection, ReadGate] = {}  # of connections with messages here
        self.bytes: int = 0
        #: Whether several clients ask for something.
        self.is_shared: bool = False
        self._taken: dict[str, int] = {}  # bytes that went ahead since `begin`, by client

    def __bool__(self) -> bool:
        """Return whether any waits."""
        return self.bytes > 0

    def begin(self, *, is_shared: bool) -> None:
        """Begin a look."""
        self.is_shared = is_shared
        self._taken.clear()

    def is_for(self, client: str, size: int) -> bool:
        """Tell whether a message of a client has to wait: it is large, or one before it waits."""
        if self.bytes > 0 and self._queue.count(client) > 0:
            return True
        if not self.is_shared:
            return False
        taken = self._taken.get(client, 0) + max(size, 256)
        self._taken[client] = taken
        return (taken if CREDIT else size) > SMALL_BYTES

    def append(self, connection: Connection, frame: "zmq.Frame") -> None:
        """Add a message, behind the others of its client."""
        size = len(frame)
        gate = self._gates.get(connection)
        if gate is None:
            gate = self._gates[connection] = ReadGate(descriptor_of(frame))
        gate.add(size + MESSAGE_BYTES)
        self.bytes += size + MESSAGE_BYTES
        self._queue.append(connection.client, (connection, frame.bytes), size)

    def popleft(self) -> tuple[Connection, bytes]:
        """Remove the next message. Raises IndexError if there is none."""
        connection, message = self._queue.popleft()
        size = len(message) + MESSAGE_BYTES
        self.bytes -= size
        gate = self._gates[connection]
        gate.remove(size)
        if not gate.bytes:
            del self._gates[connection]
        return connection, message
