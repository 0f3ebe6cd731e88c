"""The options of a server's socket."""

from typing import Final

import zmq

# The kernel asks a silent peer after so many seconds, and again; after so many questions without
# an answer the peer is gone. Likewise if it confirms nothing that was sent for so long.
_KEEP_ALIVE_S: Final = 5
_QUESTIONS: Final = 3
_UNCONFIRMED_MS: Final = 20_000
# A connection that has not finished its handshake by then is closed.
_HANDSHAKE_MS: Final = 10_000


def set_options(
    socket: "zmq.Socket[bytes]", received_frames: int, sent_frames: int, message_bytes: int
) -> None:
    """Set the options of a ROUTER that is not bound yet.

    It queues so many frames for each connection, and ends one that sends a message of more than
    `message_bytes`.
    """
    for option, value in (
        (zmq.LINGER, 0),
        # A send to a connection that is full or gone is an error, not a silent drop.
        (zmq.ROUTER_MANDATORY, 1),
        (zmq.SNDHWM, sent_frames),
        (zmq.RCVHWM, received_frames),
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
