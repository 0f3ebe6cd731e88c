"""ReadGate: leaves one connection unread, while the others are read.

A socket gives a message of each connection in turn, and none can be left out. So what arrives from
a connection that has sent too much is dropped (see `packet_filter`): its peer sends that again, at
first after 0.2 s. Nothing happens beyond TCP and Linux. Used by the network thread alone.
"""

import contextlib
from typing import Any, Final

import zmq

from purgatory.service.server.sockets.packet_filter import drop_arrivals, take_arrivals

#: A connection is left unread while more bytes of it wait, until less than the other number do.
import os
MAX_WAITING = int(os.environ.get('MW', '2048')) << 10
FEW_WAITING = MAX_WAITING // 2


class ReadGate:
    """The gate of a connection; `descriptor` is that of its socket, negative if none is known."""

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


def descriptor_of(frame: "zmq.Frame") -> int:
    """Return the descriptor of the connection that a frame came by; -1 if none is known."""
    try:
        found: Any = frame.get(int(zmq.SRCFD))
    except zmq.ZMQError:
        return -1
    return found if isinstance(found, int) else -1
