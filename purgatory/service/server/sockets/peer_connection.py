"""What can be done with the connection by which a frame came. Used by the network thread alone.

A socket of ZeroMQ gives a message of each connection in turn: none can be left out, or closed. But
each frame knows the descriptor of its connection. libzmq may close that at any time, and another
connection get the same number: that one would be paused, or ended, and recover as from any loss.
Nothing happens beyond TCP and Linux.
"""

import contextlib
import socket
from typing import Any, Final

import zmq

from purgatory.service.server.sockets.packet_filter import drop_arrivals, take_arrivals

#: A connection is left unread while more bytes of it wait, until fewer than the other number do.
MAX_WAITING: Final = 1 << 20
FEW_WAITING: Final = 512 << 10


class ReadGate:
    """Leaves a connection unread while much that it has sent waits.

    What arrives is dropped (see `packet_filter`): the peer sends it again, at first after 0.2 s.
    `descriptor`: that of the connection, negative if none is known.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.bytes: int = 0  # that wait
        self.is_open: bool = True

    def add(self, size: int) -> None:
        """Note that so many bytes more wait."""
        self.bytes += size
        if self.is_open and self.bytes > MAX_WAITING:
            self._turn(is_open=False)

    def remove(self, size: int) -> None:
        """Note that so many bytes wait no longer."""
        self.bytes -= size
        if not self.is_open and self.bytes < FEW_WAITING:
            self._turn(is_open=True)

    def _turn(self, *, is_open: bool) -> None:
        self.is_open = is_open
        if self._descriptor >= 0:
            # An error: the connection has ended, or there are no filters.
            with contextlib.suppress(OSError):
                (take_arrivals if is_open else drop_arrivals)(self._descriptor)


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
