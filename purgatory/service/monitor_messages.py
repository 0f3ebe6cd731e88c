"""Reads libzmq's reports of a socket's connections. The thread that owns the monitor.

`zmq.utils.monitor` does the same, but imports asyncio: a fifth of the start of a command.
"""

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import zmq

# The event and its value, as zmq_socket_monitor(3) says.
_HEAD: Final = struct.Struct("=Hi")


def recv_monitor_message(monitor: "zmq.Socket[bytes]") -> tuple[int, int]:
    """Return the next event and its value, as for `zmq.EVENT_CONNECTED` a descriptor."""
    head, _endpoint = monitor.recv_multipart()
    event, value = _HEAD.unpack(head)
    return event, value
