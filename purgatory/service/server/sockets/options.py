"""The options of a server's socket."""

from typing import Final

import zmq

_HEARTBEAT_MS: Final = 5_000
_HEARTBEAT_TIMEOUT_MS: Final = 20_000
# A connection that has not finished its handshake by then is closed.
_HANDSHAKE_MS: Final = 10_000


def set_options(socket: "zmq.Socket[bytes]", frames: int, message_bytes: int) -> None:
    """Set the options of a ROUTER that is not bound yet.

    It queues so many `frames` for each connection, each way, and ends one that sends a message of
    more than `message_bytes`.
    """
    for option, value in (
        (zmq.LINGER, 0),
        # A send to a connection that is full or gone is an error, not a silent drop.
        (zmq.ROUTER_MANDATORY, 1),
        (zmq.SNDHWM, frames),
        (zmq.RCVHWM, frames),
        # Above our own limit: a message a little too large gets an error, and no disconnect.
        (zmq.MAXMSGSIZE, message_bytes),
        (zmq.HEARTBEAT_IVL, _HEARTBEAT_MS),
        (zmq.HEARTBEAT_TIMEOUT, _HEARTBEAT_TIMEOUT_MS),
        (zmq.HANDSHAKE_IVL, _HANDSHAKE_MS),
    ):
        socket.setsockopt(option, value)
