"""Reader: asks a server for its figures, again and again, and changes nothing.

What changes nothing is not committed, so no fence stops its answer: only the guard does.
"""

from typing import Final

from purgatory.service.encoding import encode
from purgatory.service.protocol import VERSION, Hello, Stats
from purgatory.testing.world.connection import SimulatedConnection
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.world import NS_PER_MS

# Between two questions, and between two attempts to connect.
_ASK_NS: Final = 60 * NS_PER_MS
_RETRY_NS: Final = 100 * NS_PER_MS


class Reader:
    """A client of the machine `host`; it does not go elsewhere while its connection lasts."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self.host = host
        self._network = network
        self._connection: SimulatedConnection | None = None
        self._seq = 0
        #: How many answers it got.
        self.answers: int = 0
        #: Whether it asks.
        self.is_busy: bool = True
        self._dial()
        self._ask()

    def _dial(self) -> None:
        self._network.dial(ADDRESS, self, self._retry)

    def _retry(self) -> None:
        self._network.world.after(_RETRY_NS, self._dial)

    def _send(self, message: Hello | Stats) -> None:
        if self._connection is not None:
            self._connection.to_listener.send(encode(message))

    def _ask(self) -> None:
        if self.is_busy:
            self._seq += 1
            self._send(Stats(self._seq))
            self._network.world.after(_ASK_NS, self._ask)

    def on_frame(self, connection: SimulatedConnection, frame: bytes) -> None:
        """Count an answer."""
        del connection, frame
        self.answers += 1

    def on_connected(self, connection: SimulatedConnection) -> None:
        """Say hello."""
        self._connection = connection
        self._seq += 1
        self._send(Hello(self._seq, VERSION, self.host, "", False))

    def on_broken(self, connection: SimulatedConnection) -> None:
        """Connect again."""
        self._network.forget(connection)
        if self._connection in (connection, None):
            self._connection = None
            self._retry()
