"""SimulatedConnection: a link between two sockets, like TCP and ZeroMQ's, and its faults.

Each direction keeps its order. If the connection breaks, frames on their way are lost, and each
side notices by itself.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from purgatory.testing.world.world import World


class Side(Protocol):
    """A socket at an end; `host`: its machine."""

    host: str

    def on_frame(self, connection: "SimulatedConnection", frame: bytes) -> None:
        """Take a frame."""

    def on_connected(self, connection: "SimulatedConnection") -> None:
        """Note the new connection."""

    def on_broken(self, connection: "SimulatedConnection") -> None:
        """Note the end of the connection."""


class SimulatedConnection:
    """From `dialer` to `listener`. `latency_ns` returns the time of a frame."""

    def __init__(
        self, world: World, number: int, dialer: Side, listener: Side, latency_ns: Callable[[], int]
    ) -> None:
        self.world = world
        self.number = number
        #: The ROUTER's name for the connection.
        self.route: bytes = b"\0" + number.to_bytes(4, "big")
        self.dialer = dialer
        self.listener = listener
        self.latency_ns = latency_ns
        self.hosts: tuple[str, str] = (dialer.host, listener.host)
        self.to_listener: Direction = Direction(self, listener)
        self.to_dialer: Direction = Direction(self, dialer)
        self.broken: bool = False
        #: Frames wait.
        self.is_held_up: bool = False

    def greet(self) -> None:
        """Notify the dialer of the connection."""
        if not self.broken:
            self.dialer.on_connected(self)

    def close(self) -> None:
        """End the connection like a closing dialer: sent frames arrive first."""
        self.to_dialer.cut()
        self.to_listener.send(None)

    def break_off(self, dialer_ns: int, listener_ns: int) -> None:
        """Lose all frames; each side notices after its delay."""
        if self.broken:
            return
        self.broken = True
        self.to_dialer.cut()
        self.to_listener.cut()
        self.world.after(dialer_ns, lambda: self.dialer.on_broken(self))
        self.world.after(listener_ns, lambda: self.listener.on_broken(self))

    def resume(self) -> None:
        """Let frames through again."""
        self.is_held_up = False
        self.to_listener.deliver_held()
        self.to_dialer.deliver_held()


class Direction:
    """The frames on their way to a side; None is the end of the connection."""

    def __init__(self, connection: SimulatedConnection, side: Side) -> None:
        self._connection = connection
        self._side = side
        self._frames: deque[bytes | None] = deque()
        self._arrival_ns = 0  # of the last frame
        self._held = 0  # frames held up by the cut
        self._is_cut = False

    def __len__(self) -> int:
        return len(self._frames)

    def send(self, frame: bytes | None) -> None:
        """Send a frame; it is lost after the end of the connection."""
        if self._is_cut:
            return
        world = self._connection.world
        self._frames.append(frame)
        arrival_ns = world.now_ns + self._connection.latency_ns()
        self._arrival_ns = max(self._arrival_ns, arrival_ns)
        world.at(self._arrival_ns, self._arrive)

    def _arrive(self) -> None:
        if self._is_cut:
            return
        if self._connection.is_held_up:
            self._held += 1
            return
        frame = self._frames.popleft()
        if frame is None:
            self._connection.broken = True
            self._side.on_broken(self._connection)
        else:
            self._side.on_frame(self._connection, frame)

    def deliver_held(self) -> None:
        """Deliver waiting frames."""
        held, self._held = self._held, 0
        for _ in range(held):
            self._arrive()

    def cut(self) -> None:
        """Lose all frames, and those to come."""
        self._is_cut = True
        self._frames.clear()
