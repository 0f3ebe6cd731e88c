"""Scout: asks other servers for a welcome while the connected server is silent.

If only this server is cut off from its database, another server may be active. If the database is
away for all servers, the client must stay, or it would lose a worker's leases. So the client moves
only to a server that welcomes the scout, on a separate socket. Used with the `Turn`.
"""

from collections.abc import Callable, Sequence
from typing import Final

import zmq

from purgatory.service import encoding
from purgatory.service.errors import Standby
from purgatory.service.protocol import Failure

#: Seconds between two looks at the socket of a scout.
LOOK_S: Final = 0.05
#: Seconds after which a scout asks the next server.
ASK_S: Final = 1.0


class Scout:
    """Asks one server after the other; `open_socket(address)` returns a connecting socket."""

    def __init__(
        self, open_socket: Callable[[str], "zmq.Socket[bytes]"], clock: Callable[[], float]
    ) -> None:
        self._open_socket = open_socket
        self._clock = clock
        self._socket: zmq.Socket[bytes] | None = None
        self._hello: bytes = b""  # unsent
        self._count = 0  # of servers asked
        self._until = 0.0
        #: Of the server that is asked.
        self.address: str = ""

    @property
    def is_under_way(self) -> bool:
        """Whether a server is asked."""
        return self._socket is not None

    def look(self, addresses: Sequence[str], hello: Callable[[], bytes]) -> bool:
        """Ask the next server if it is time; tell whether the server at `address` is active."""
        now = self._clock()
        if self._socket is None or now >= self._until:
            self.close()
            self.address = addresses[self._count % len(addresses)]
            self._count += 1
            self._until = now + ASK_S
            self._socket = self._open_socket(self.address)
            self._hello = hello()
        try:
            if self._hello:
                self._socket.send(self._hello, zmq.NOBLOCK)
                self._hello = b""
            return _is_welcome(self._socket.recv(zmq.NOBLOCK))
        except zmq.Again:
            return False

    def close(self) -> None:
        """End the search. Idempotent."""
        if self._socket is not None:
            self._socket.close(0)
            self._socket = None


def _is_welcome(frame: bytes) -> bool:
    try:
        answer = encoding.decode_answer(frame)
    except encoding.NOT_A_MESSAGE:
        return False
    return not (isinstance(answer, Failure) and answer.code == Standby.code)
