"""Plain TCP connections that speak ZMTP 3.0 to a server, for peers that no library would be."""

import contextlib
import socket
import struct

from tests.testing.purgatory_harness import HANG

PING = bytes([4, 7]) + b"\x04PING\0\0"


def frame(size, more=True):
    """Return a frame of ZMTP 3."""
    if size < 256:
        return bytes([more, size]) + b"a" * size
    return bytes([2 + more]) + struct.pack(">Q", size) + b"a" * size


def dealer(port):
    """Return a TCP connection after the handshake of ZMTP with the mechanism NULL."""
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(socket.create_connection(("127.0.0.1", int(port)), HANG))
        greet(made, b"DEALER")
        stack.pop_all()  # it stays open
    return made


def greet(peer, kind):
    """Do the handshake as a socket of a kind."""
    peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    read(peer, 64)
    ready = b"\x05READY\x0bSocket-Type\0\0\0" + bytes([len(kind)]) + kind
    peer.sendall(bytes([4, len(ready)]) + ready)
    _, length = read(peer, 2)
    read(peer, length)


def read(peer, size):
    """Return so many bytes; ConnectionError if the other side has ended the connection."""
    found = b""
    while len(found) < size:
        part = peer.recv(size - len(found))
        if not part:
            raise ConnectionResetError("the other side has ended the connection")
        found += part
    return found


def reset(peer):
    """End a connection so that the other side sees a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
