"""Has the kernel drop what arrives at a TCP connection or listener, which stays open.

A filter of one instruction does it (SO_ATTACH_FILTER, socket(7) and
Documentation/networking/filter.rst of Linux). To the peer the network seems to lose its packets: it
sends them again, so nothing is lost. Linux and TCP only. Used by the network thread.
"""

import array
import socket
import struct
from typing import Final

# Of asm-generic/socket.h; Python does not name them.
_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
# A struct sock_filter: BPF_RET | BPF_K, keep 0 bytes of the packet.
_DROP: Final = array.array("B", struct.pack("HBBI", 0x06, 0, 0, 0))
_TCP: Final = (socket.AF_INET, socket.AF_INET6)


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
