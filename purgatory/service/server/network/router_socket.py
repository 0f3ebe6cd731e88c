"""The server's ROUTER socket: options, and work on descriptors below ZeroMQ.

A socket of ZeroMQ gives a message of each connection in turn: none can be left out, or closed. But
each frame knows the descriptor of its connection. libzmq may close that at any time, and another
connection get the same number: that one would be paused, or ended, and recover as from any loss.

The kernel can drop packets of a TCP connection or listener, which stays open. A filter of one
instruction does it (SO_ATTACH_FILTER, socket(7) and Documentation/networking/filter.rst of Linux).
The peer sees a network that loses packets: it retransmits, so nothing is lost. Does nothing except
for TCP on Linux. For the network thread, but for `UnreadConnections`.
"""

import array
import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any, Final

import zmq
from zmq.utils.monitor import recv_monitor_message

if TYPE_CHECKING:
    Router = zmq.Socket[bytes]

# The kernel probes a silent peer after so many seconds; after so many unanswered probes the
# connection is lost. The same if sent data stays unconfirmed for so long.
_KEEP_ALIVE_S: Final = 5
_QUESTIONS: Final = 3
_UNCONFIRMED_MS: Final = 20_000
# A connection that has not finished its handshake by then is closed.
_HANDSHAKE_MS: Final = 10_000
# How many milliseconds libzmq may take to report a `bind`.
_REPORT_MS: Final = 1000
# Of asm-generic/socket.h; Python does not name them.
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
# A struct sock_filter: BPF_RET | BPF_K, keep 0 bytes of the packet.
_DROP: Final = array.array("B", struct.pack("HBBI", 0x06, 0, 0, 0))
# Where a struct tcp_info of linux/tcp.h has tcpi_bytes_received, and the value of tcpi_state.
_INFO_BYTES: Final = 256
_BYTES_RECEIVED: Final = struct.Struct("=128xQ")
_ESTABLISHED: Final = 1
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


def set_options(socket: "Router", sent_frames: int, message_bytes: int) -> None:
    """Set the options of a ROUTER that is not bound yet.

    It queues so many frames to send for each connection, and ends a connection that sends a message
    of more than `message_bytes`.
    """
    for option, value in (
        (zmq.LINGER, 0),
        # A send to a connection that is full or gone is an error, not a silent drop.
        (zmq.ROUTER_MANDATORY, 1),
        (zmq.SNDHWM, sent_frames),
        # No bound: with a full queue libzmq stops in the middle of what it has read. If the
        # connection breaks then, and a heartbeat is among the bytes behind, an assertion ends the
        # process (libzmq 4.3.5). `FloodGates` and `UnfinishedMessages` bound what is queued.
        (zmq.RCVHWM, 0),
        # Above our own limit: a message a little too large gets an error, and no disconnect.
        (zmq.MAXMSGSIZE, message_bytes),
        # Not ZeroMQ's own heartbeat: when a connection ends while its frames are not all read, the
        # heartbeat's timer ends the process (an assertion, libzmq issue 4841).
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, _KEEP_ALIVE_S),
        (zmq.TCP_KEEPALIVE_INTVL, _KEEP_ALIVE_S),
        (zmq.TCP_KEEPALIVE_CNT, _QUESTIONS),
        (zmq.TCP_MAXRT, _UNCONFIRMED_MS),
        (zmq.HANDSHAKE_IVL, _HANDSHAKE_MS),
    ):
        socket.setsockopt(option, value)


def bind(router: "Router", address: str) -> int:
    """Bind a socket; returns the descriptor that listens, -1 if none is known. Raises ZMQError."""
    monitor = router.get_monitor_socket(zmq.EVENT_LISTENING)
    try:
        router.bind(address)
        is_tcp = address.startswith("tcp:") and monitor.poll(_REPORT_MS)
        return int(recv_monitor_message(monitor)["value"]) if is_tcp else -1
    finally:
        router.disable_monitor()
        monitor.close(0)


def end_connection(descriptor: int) -> None:
    """End a connection, unless its descriptor is negative or it has ended: its peer notices."""
    if descriptor < 0:
        return
    with contextlib.suppress(OSError):
        borrowed = socket.socket(fileno=descriptor)
        try:
            borrowed.shutdown(socket.SHUT_RDWR)
        finally:
            borrowed.detach()  # libzmq closes it


def descriptor_of(frame: "zmq.Frame") -> int:
    """Return the descriptor of the connection that a frame came by; -1 if none is known."""
    try:
        found: Any = frame.get(int(zmq.SRCFD))
    except zmq.ZMQError:
        return -1
    return found if isinstance(found, int) else -1


def received_bytes(descriptor: int, port: int = 0) -> int:
    """Return how many bytes a TCP connection has brought.

    -1 if no established connection has the descriptor, or its local port is not `port` (0: any).
    """
    if descriptor < 0:
        return -1
    with contextlib.suppress(OSError):
        borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=descriptor)
        try:
            info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            is_there = len(info) >= _BYTES_RECEIVED.size and info[0] == _ESTABLISHED
            if is_there and port in (0, borrowed.getsockname()[1]):
                return int(_BYTES_RECEIVED.unpack_from(info)[0])
        finally:
            borrowed.detach()  # libzmq closes it
    return -1


def drop_arrivals(descriptor: int) -> None:
    """Begin to drop what arrives. Raises OSError, also where the system has no filters."""
    _set(descriptor, _SO_ATTACH_FILTER, struct.pack("HL", 1, _DROP.buffer_info()[0]))


def take_arrivals(descriptor: int) -> None:
    """Drop nothing any more. Raises OSError."""
    _set(descriptor, _SO_DETACH_FILTER, struct.pack("i", 0))


def _set(descriptor: int, option: int, value: bytes) -> None:
    borrowed = socket.socket(fileno=descriptor)
    try:
        if borrowed.family in _TCP:  # of a local socket, what is dropped is lost
            borrowed.setsockopt(socket.SOL_SOCKET, option, value)
    finally:
        borrowed.detach()  # libzmq closes it


class UnreadConnections:
    """The reasons by descriptor; a reason is the object that leaves the connection unread.

    A connection is read again when its last reason has gone. Any thread; the lock is never held
    while another one is taken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[int, set[object]] = {}

    def leave(self, descriptor: int, reason: object) -> None:
        """Leave a connection unread. Raises OSError if it has ended, or there are no filters."""
        with self._lock:
            # Also beside another reason, which may be an earlier connection's.
            drop_arrivals(descriptor)
            self._reasons.setdefault(descriptor, set()).add(reason)

    def read(self, descriptor: int, reason: object) -> None:
        """Read a connection again, unless another reason is left. Idempotent."""
        with self._lock:
            reasons = self._reasons.get(descriptor, set())
            reasons.discard(reason)
            if not reasons:
                self._reasons.pop(descriptor, None)
                with contextlib.suppress(OSError):  # the connection has ended
                    take_arrivals(descriptor)
