"""The sockets of simulated processes: the parts of pyzmq's that the service uses.

Like ZeroMQ's, a descriptor is edge-triggered: an arrival makes it readable, any use of the socket
makes it not readable, whatever is left to read.
"""

import errno
import struct
from collections import deque
from typing import Any, Final

import zmq

from purgatory.testing.world.connection import SimulatedConnection
from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import NS_PER_MS

# Plain numbers: the enumeration's take a microsecond to combine.
_SNDMORE: Final = int(zmq.SNDMORE)
_POLLIN: Final = int(zmq.POLLIN)
# Raised at each end of reading; making one looks the message up.
_AGAIN: Final = zmq.Again()
# Nanoseconds between two attempts to connect: at first, and at most.
_RECONNECT_NS: Final = (50 * NS_PER_MS, 1000 * NS_PER_MS)


class SimulatedContext:
    """Makes the sockets of a process on `host`."""

    def __init__(self, host: str, descriptors: Descriptors, network: SimulatedNetwork) -> None:
        self._host = host
        self._descriptors = descriptors
        self._network = network
        self._sockets: list[SimulatedSocket] = []

    def socket(self, kind: int) -> "SimulatedSocket":
        """Make a ROUTER or a DEALER."""
        cls = SimulatedRouter if kind == zmq.ROUTER else SimulatedDealer
        made = cls(self._host, self._descriptors, self._network)
        self._sockets = [each for each in self._sockets if not each.closed]
        self._sockets.append(made)
        return made

    def term(self) -> None:
        """Do nothing: the sockets are closed."""

    def destroy(self, linger: int = 0) -> None:
        """End all connections at once, like the end of a process."""
        del linger
        for socket in self._sockets:
            socket.abort()


class SimulatedSocket:
    """The common half of both sockets: a `Side`."""

    def __init__(self, host: str, descriptors: Descriptors, network: SimulatedNetwork) -> None:
        self.host = host
        self.closed: bool = False
        self._descriptors = descriptors
        self._network = network
        self.FD: int = descriptors.new()
        self._clear = descriptors.clear

    def setsockopt(self, option: int, value: Any) -> None:
        """Do nothing: the simulation knows the service's options."""

    def getsockopt(self, option: int) -> int:
        """Return the events, the only known option."""
        assert option == zmq.EVENTS
        self._clear(self.FD)
        return _POLLIN if self._has_frames() else 0

    def _has_frames(self) -> bool:
        raise NotImplementedError

    def abort(self) -> None:
        """End all connections; frames on their way are lost."""
        raise NotImplementedError


class SimulatedRouter(SimulatedSocket):
    """A ROUTER with ZMQ_ROUTER_MANDATORY."""

    def __init__(self, host: str, descriptors: Descriptors, network: SimulatedNetwork) -> None:
        super().__init__(host, descriptors, network)
        self._frames: deque[tuple[bytes, bytes]] = deque()
        self._next: bytes | None = None  # the frame after a received route
        self._peers: dict[bytes, SimulatedConnection] = {}
        self._recipient: SimulatedConnection | None = None
        self._address = ""

    def bind(self, address: str) -> None:
        """Listen at an address."""
        self._address = address
        self._network.listen(address, self)

    def unbind(self, address: str) -> None:
        """Accept no connection."""
        del address
        self._network.stop_listening(self)

    def getsockopt_string(self, option: int) -> str:
        """Return the address."""
        assert option == zmq.LAST_ENDPOINT
        self._clear(self.FD)
        return self._address

    def _has_frames(self) -> bool:
        return bool(self._frames)

    def recv(self, flags: int = 0, *, copy: bool = True) -> Any:
        """Return a route, then its frame. Raises Again."""
        self._clear(self.FD)
        if self._next is not None:
            frame, self._next = self._next, None
            return frame if copy else SimulatedFrame(frame)
        if not self._frames:
            raise _AGAIN.with_traceback(None)
        del flags
        route, self._next = self._frames.popleft()
        return route

    def send(self, part: bytes, flags: int) -> None:
        """Send a route, then a frame. Raises Again, or ZMQError for an unknown route."""
        self._clear(self.FD)
        if not int(flags) & _SNDMORE:  # the enumeration's `&` takes longer
            assert self._recipient is not None
            self._recipient.to_dialer.send(part)
            return
        peer = self._peers.get(part)
        if peer is None:
            raise zmq.ZMQError(errno.EHOSTUNREACH)
        if len(peer.to_dialer) >= self._network.send_hwm:
            raise _AGAIN.with_traceback(None)
        self._recipient = peer

    def on_connected(self, connection: SimulatedConnection) -> None:
        """Give a connection its route."""
        self._peers[connection.route] = connection

    def on_frame(self, connection: SimulatedConnection, frame: bytes) -> None:
        """Queue a frame."""
        if not self.closed:
            self._frames.append((connection.route, frame))
            self._descriptors.signal(self.FD)

    def on_broken(self, connection: SimulatedConnection) -> None:
        """Forget a connection."""
        self._peers.pop(connection.route, None)
        self._network.forget(connection)

    def close(self, linger: int = 0) -> None:
        """End all connections; with `linger`, after all frames have arrived."""
        self.closed = True
        self._network.stop_listening(self)
        for peer in self._peers.values():
            if linger:
                peer.to_dialer.send(None)
            else:
                self._network.break_off(peer)

    def abort(self) -> None:
        if not self.closed:
            self.close(0)


class SimulatedFrame:
    """A frame as `recv(copy=False)` returns it."""

    def __init__(self, data: bytes) -> None:
        self.bytes = data
        self.more: bool = False

    def __len__(self) -> int:
        return len(self.bytes)

    def get(self, option: int | str) -> int | str:
        """Return a property of the connection, or its descriptor: it has neither."""
        return "" if isinstance(option, str) else -1


class SimulatedDealer(SimulatedSocket):
    """A DEALER with a connection, retried until made."""

    def __init__(self, host: str, descriptors: Descriptors, network: SimulatedNetwork) -> None:
        super().__init__(host, descriptors, network)
        self._frames: deque[bytes] = deque()
        self._connection: SimulatedConnection | None = None
        self._monitor = SimulatedMonitor(descriptors)
        self._address = ""
        self._tells_retries = False  # whether the monitor reports failed attempts
        self._retry_ns = _RECONNECT_NS[0]

    def get_monitor_socket(self, events: int) -> "SimulatedMonitor":
        """Return the socket that reports the connection's events."""
        self._tells_retries = bool(int(events) & int(zmq.EVENT_CONNECT_RETRIED))
        return self._monitor

    def disable_monitor(self) -> None:
        """Do nothing."""

    def connect(self, address: str) -> None:
        """Begin to connect."""
        self._address = address
        self._network.dial(address, self, self._retry)

    def _retry(self) -> None:
        if not self.closed:
            if self._tells_retries:
                self._monitor.report(zmq.EVENT_CONNECT_RETRIED)
            delay_ns, self._retry_ns = self._retry_ns, min(2 * self._retry_ns, _RECONNECT_NS[1])
            self._network.world.after(delay_ns, self._dial)

    def _dial(self) -> None:
        if not self.closed:
            self._network.dial(self._address, self, self._retry)

    def _has_frames(self) -> bool:
        return bool(self._frames)

    def recv(self, flags: int) -> bytes:
        """Return the next frame. Raises Again."""
        del flags
        self._clear(self.FD)
        if not self._frames:
            raise _AGAIN.with_traceback(None)
        return self._frames.popleft()

    def send(self, frame: bytes, flags: int) -> None:
        """Send a frame. Raises Again without a connection."""
        del flags
        self._clear(self.FD)
        if self._connection is None:
            raise _AGAIN.with_traceback(None)
        self._connection.to_listener.send(frame)

    def on_connected(self, connection: SimulatedConnection) -> None:
        """Report the handshake."""
        if self.closed:
            connection.close()
            return
        self._connection = connection
        self._monitor.report(zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def on_frame(self, connection: SimulatedConnection, frame: bytes) -> None:
        """Queue a frame."""
        del connection
        if not self.closed:
            self._frames.append(frame)
            self._descriptors.signal(self.FD)

    def on_broken(self, connection: SimulatedConnection) -> None:
        """Report the end of the connection."""
        self._network.forget(connection)
        if self.closed:
            return
        if self._connection is connection:
            self._connection = None
            self._monitor.report(zmq.EVENT_DISCONNECTED)
        else:  # before the handshake
            self._retry()

    def close(self, linger: int = 0) -> None:
        """End the connection after all frames have arrived."""
        del linger
        self.closed = True
        if self._connection is not None:
            self._connection.close()

    def abort(self) -> None:
        self.closed = True
        if self._connection is not None:
            self._network.break_off(self._connection)


class SimulatedMonitor:
    """The socket with a DEALER's events."""

    def __init__(self, descriptors: Descriptors) -> None:
        self._descriptors = descriptors
        self._events: deque[int] = deque()
        self.FD: int = descriptors.new()

    def report(self, event: int) -> None:
        """Queue an event."""
        self._events.append(event)
        self._descriptors.signal(self.FD)

    def poll(self, timeout: int) -> int:
        """Tell whether there is an event."""
        del timeout
        self._descriptors.clear(self.FD)
        return len(self._events)

    def recv_multipart(self, flags: int = 0) -> list[bytes]:
        """Return the next event, as ZeroMQ encodes it."""
        del flags
        return [struct.pack("=hi", self._events.popleft(), 0), b""]

    def close(self, linger: int = 0) -> None:
        """Report nothing."""
        del linger
        self._events.clear()
