"""The server's ROUTER socket: options, and work on descriptors below ZeroMQ.

A ZeroMQ socket can neither leave out nor close a connection. But each frame knows its connection's
descriptor. libzmq may close the descriptor at any time, and another connection get its number: this
is then paused or ended by mistake, and recovers.

A filter of one instruction (SO_ATTACH_FILTER, socket(7) and Documentation/networking/filter.rst of
Linux) makes the kernel drop the packets of a TCP connection or listener. The peer retransmits, so
nothing is lost. TCP on Linux only. The socket is for the network thread, descriptors for any.
"""

import array
import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import zmq

from purgatory.service.errors import ServerError
from purgatory.service.monitor_messages import recv_monitor_message

if TYPE_CHECKING:
    Router = zmq.Socket[bytes]

# The kernel probes a peer silent for so many seconds, so many times; then the connection is lost,
# as when sent data stays unconfirmed.
_KEEP_ALIVE_S: Final = 5
_QUESTIONS: Final = 3
_UNCONFIRMED_MS: Final = 20_000
# Milliseconds for a handshake.
_HANDSHAKE_MS: Final = 10_000
# Milliseconds for a `bind`.
_REPORT_MS: Final = 1000
# Of asm-generic/socket.h; Python does not name them.
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
# A struct sock_filter: BPF_RET | BPF_K, keep 0 bytes of the packet.
_DROP: Final = array.array("B", struct.pack("HBBI", 0x06, 0, 0, 0))
# A struct tcp_info of linux/tcp.h: size, tcpi_bytes_received, and a tcpi_state.
_INFO_BYTES: Final = 256
_BYTES_RECEIVED: Final = struct.Struct("=128xQ")
_ESTABLISHED: Final = 1
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


def set_options(socket: "Router", address: str, sent_frames: int, message_bytes: int) -> None:
    """Set a ROUTER's options, before it is bound to `address`.

    `sent_frames`: most queued for a connection. `message_bytes`: a larger message ends its
    connection.
    """
    for option, value in (
        (zmq.LINGER, 0),
        (zmq.IPV6, "[" in address),
        # A send to a full or lost connection is an error, not a silent drop.
        (zmq.ROUTER_MANDATORY, 1),
        (zmq.SNDHWM, sent_frames),
        # No bound: if a connection breaks while a full queue stops libzmq, and a heartbeat is among
        # the bytes behind, an assertion ends the process (libzmq 4.3.5). `FloodGates` and
        # `UnfinishedMessages` bound the queues.
        (zmq.RCVHWM, 0),
        # Above the server's limit: a slightly larger message gets an error.
        (zmq.MAXMSGSIZE, message_bytes),
        # Not ZeroMQ's heartbeat: its timer ends the process if a connection ends with unread frames
        # (an assertion, libzmq issue 4841).
        (zmq.TCP_KEEPALIVE, 1),
        (zmq.TCP_KEEPALIVE_IDLE, _KEEP_ALIVE_S),
        (zmq.TCP_KEEPALIVE_INTVL, _KEEP_ALIVE_S),
        (zmq.TCP_KEEPALIVE_CNT, _QUESTIONS),
        (zmq.TCP_MAXRT, _UNCONFIRMED_MS),
        (zmq.HANDSHAKE_IVL, _HANDSHAKE_MS),
    ):
        socket.setsockopt(option, value)


def bind(router: "Router", address: str, *, finds_listener: bool = True) -> int:
    """Bind; return the listening descriptor, -1: unknown. Raises ServerError."""
    try:
        if finds_listener:
            return _bind_and_find(router, address)
        router.bind(address)
    except zmq.ZMQError as error:
        reason = zmq.strerror(error.errno or 0)
        raise ServerError(
            f"cannot listen at {address}: {reason}; expected tcp://HOST:PORT or ipc://PATH of this "
            "machine, free of other programs"
        ) from error
    return -1


def _bind_and_find(router: "Router", address: str) -> int:
    monitor = router.get_monitor_socket(zmq.EVENT_LISTENING)
    try:
        router.bind(address)
        is_tcp = address.startswith("tcp:") and monitor.poll(_REPORT_MS)
        return recv_monitor_message(monitor)[1] if is_tcp else -1
    finally:
        router.disable_monitor()
        monitor.close(0)


@contextlib.contextmanager
def _borrowed(descriptor: int, family: int = -1, kind: int = -1) -> Iterator[socket.socket]:
    """Yield libzmq's descriptor as a socket. Raises OSError."""
    borrowed = socket.socket(family, kind, fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()  # libzmq closes it


def end_connection(descriptor: int) -> None:
    """End a connection, if it exists."""
    if descriptor < 0:
        return
    with contextlib.suppress(OSError), _borrowed(descriptor) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def descriptor_of(frame: "zmq.Frame") -> int:
    """Return the descriptor of a frame's connection; -1: unknown."""
    try:
        found: Any = frame.get(int(zmq.SRCFD))
    except zmq.ZMQError:
        return -1
    return found if isinstance(found, int) else -1


def received_bytes(descriptor: int, port: int = 0) -> int:
    """Return the bytes received by a TCP connection of local `port` (0: any); -1: none."""
    if descriptor < 0:
        return -1
    with (
        contextlib.suppress(OSError),
        _borrowed(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection,
    ):
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        is_there = len(info) >= _BYTES_RECEIVED.size and info[0] == _ESTABLISHED
        if is_there and port in (0, connection.getsockname()[1]):
            return int(_BYTES_RECEIVED.unpack_from(info)[0])
    return -1


def drop_arrivals(descriptor: int) -> None:
    """Begin to drop arrivals. Raises OSError, also without filters."""
    _set(descriptor, _SO_ATTACH_FILTER, struct.pack("HL", 1, _DROP.buffer_info()[0]))


def take_arrivals(descriptor: int) -> None:
    """Drop nothing more. Raises OSError."""
    _set(descriptor, _SO_DETACH_FILTER, struct.pack("i", 0))


def _set(descriptor: int, option: int, value: bytes) -> None:
    with _borrowed(descriptor) as connection:
        if connection.family in _TCP:  # a local socket would lose what is dropped
            connection.setsockopt(socket.SOL_SOCKET, option, value)
