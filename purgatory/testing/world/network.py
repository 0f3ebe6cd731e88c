"""SimulatedNetwork: listening sockets, connections, and hosts that are cut off.

Frames of two connections arrive in any order. Frames of a host that is cut off wait until it is
back or, after the heartbeats, both sides give up.
"""

from collections.abc import Callable
from typing import Final

from purgatory.testing.world.connection import Side, SimulatedConnection
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S, World

# Nanoseconds of a frame on its way, usually; one in SLOW_ONE_IN is slower.
_LATENCY_NS: Final = (20_000, 400_000)
_SLOW_NS: Final = 250 * NS_PER_MS
_SLOW_ONE_IN: Final = 100
# After so long a side notices missing heartbeats.
_HEARTBEAT_NS: Final = (20 * NS_PER_S, 26 * NS_PER_S)


class SimulatedNetwork:
    """The connections of a world's machines."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._listeners: dict[str, list[Side]] = {}  # by address; the last accepts
        self._connections: dict[int, SimulatedConnection] = {}
        self._count = 0
        self._cut_off: dict[str, None] = {}
        #: Frames on their way from a ROUTER to a peer, at most: the socket's high-water mark, and
        #: TCP's buffers.
        self.send_hwm: int = world.random.choice((4, 32, 128))

    def listen(self, address: str, listener: Side) -> None:
        """Accept connections to an address, in place of earlier listeners."""
        self._listeners.setdefault(address, []).append(listener)

    def stop_listening(self, listener: Side) -> None:
        """Take back `listen`."""
        for listeners in self._listeners.values():
            listeners[:] = [each for each in listeners if each is not listener]

    def listener(self, address: str) -> Side | None:
        """Return the listener at an address, if any."""
        listeners = self._listeners.get(address)
        return listeners[-1] if listeners else None

    def dial(self, address: str, dialer: Side, refused: Callable[[], None]) -> None:
        """Connect to an address; calls `on_connected` of both sides, or `refused`."""
        self.world.after(self._latency_ns(), lambda: self._accept(address, dialer, refused))

    def _accept(self, address: str, dialer: Side, refused: Callable[[], None]) -> None:
        listener = self.listener(address)
        if listener is None or dialer.host in self._cut_off or listener.host in self._cut_off:
            refused()
            return
        self._count += 1
        connection = SimulatedConnection(
            self.world, self._count, dialer, listener, self._latency_ns
        )
        self._connections[self._count] = connection
        self.world.note(f"network: {dialer.host} is connected to {listener.host}")
        listener.on_connected(connection)
        self.world.after(self._latency_ns(), connection.greet)

    def forget(self, connection: SimulatedConnection) -> None:
        """Forget an ended connection."""
        self._connections.pop(connection.number, None)

    def _latency_ns(self) -> int:
        draw = self.world.random.random()
        if draw * _SLOW_ONE_IN < 1.0:
            return int(draw * _SLOW_ONE_IN * _SLOW_NS)
        low, high = _LATENCY_NS
        return low + int(draw * (high - low))

    def of_host(self, host: str) -> list[SimulatedConnection]:
        """Return the present connections of a host."""
        return [each for each in self._connections.values() if host in each.hosts]

    def break_off(self, connection: SimulatedConnection, *, half_open: bool = False) -> None:
        """Break a connection; `half_open`: one side notices by missing heartbeats."""
        soon, late = self._latency_ns(), self._latency_ns()
        if half_open:
            late = self.world.random.randint(*_HEARTBEAT_NS)
        if self.world.chance(0.5):
            soon, late = late, soon
        self.world.note(f"network: breaks off {' to '.join(connection.hosts)}")
        connection.break_off(soon, late)

    def cut_off(self, host: str) -> None:
        """Cut a host off."""
        self.world.note(f"network: cuts off {host}")
        self._cut_off[host] = None
        for connection in self.of_host(host):
            connection.is_held_up = True
            self.world.after(self.world.random.randint(*_HEARTBEAT_NS), self._give_up(connection))

    def _give_up(self, connection: SimulatedConnection) -> Callable[[], None]:
        def give_up() -> None:
            if connection.is_held_up:
                connection.break_off(0, self.world.random.randint(0, NS_PER_S))

        return give_up

    def heal(self, host: str) -> None:
        """Take back `cut_off`; delayed frames arrive."""
        if host in self._cut_off:
            self.world.note(f"network: {host} can be reached again")
            del self._cut_off[host]
        for connection in self.of_host(host):
            if not self._cut_off.keys() & set(connection.hosts):
                connection.resume()
