"""Floods: complete messages without a pause, of a client that has said hello, and of strangers."""

import contextlib

from purgatory.service.encoding import encode
from purgatory.service.protocol import VERSION, Hello
from tests.testing.raw_connections import PING, dealer, frame, reset


def flood(size, port, stop):
    """Send complete messages without a pause; connect again when the server ends the connection."""
    hello = encode(Hello(1, VERSION, "flood"))
    block = frame(size, more=False) * max(1, 100_000 // (size + 2))
    while not stop.is_set():
        with contextlib.suppress(OSError), dealer(port) as peer:
            peer.settimeout(3)
            peer.sendall(bytes([0, len(hello)]) + hello)
            while not stop.is_set():
                peer.sendall(block)


def flood_and_reset(port, stop):
    """Flood as strangers, one connection after the other."""
    while not stop.is_set():
        stranger(port)


def stranger(port):
    """Send many messages, and heartbeats, without a hello; then reset the connection."""
    with contextlib.suppress(OSError):
        peer = dealer(port)
        peer.settimeout(1)
        with contextlib.suppress(OSError):
            peer.sendall((frame(5, more=False) * 40 + PING) * 1000)
        reset(peer)
