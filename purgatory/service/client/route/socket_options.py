"""SocketOptions: the keys of a client's sockets, and when a connection is lost. Any thread."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils import z85

from purgatory.service.client.arguments import Duration, checked_seconds

# Bounds of `lost_after`, in seconds: libzmq takes up to 6,553.5 s.
_LOST_AFTER_S: Final = (0.1, 6000.0)
# Of a CURVE key, before its text encoding Z85.
_KEY_BYTES: Final = 32
_QUESTIONS: Final = 4

#: Seconds of silence after which a connection is lost.
LOST_AFTER_S: Final = 5.0
#: Sets the keys of a new socket.
ConfigureSocket = Callable[["zmq.Socket[bytes]"], None]


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """The options of a client's sockets."""

    set_keys: ConfigureSocket | None = None
    lost_after_s: float = LOST_AFTER_S

    def configure(self, socket: "zmq.Socket[bytes]", address: str, *, pings: bool = False) -> None:
        """Set the options for `address`; `pings`: libzmq notices a stopped server as well.

        Raises ValueError for a bad key.
        """
        lost_ms = int(1000 * self.lost_after_s)
        ask_s = max(1, int(self.lost_after_s / (1 + _QUESTIONS)))
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.IPV6, "[" in address),  # a name is resolved to IPv4
            # No bound: with a full queue a heartbeat after a lost connection ends the process
            # (libzmq issue 4841). The I/O thread reads all the time.
            (zmq.RCVHWM, 0),
            (zmq.RECONNECT_IVL, 50),
            (zmq.RECONNECT_IVL_MAX, 1000),
            (zmq.CONNECT_TIMEOUT, lost_ms),
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, ask_s),
            (zmq.TCP_KEEPALIVE_INTVL, ask_s),
            (zmq.TCP_KEEPALIVE_CNT, _QUESTIONS),
            (zmq.TCP_MAXRT, lost_ms),
            (zmq.HEARTBEAT_IVL, lost_ms // 3 if pings else 0),
            (zmq.HEARTBEAT_TIMEOUT, lost_ms - lost_ms // 3 if pings else 0),
        ):
            socket.setsockopt(option, value)
        if self.set_keys is not None:
            self.set_keys(socket)


def socket_options(
    server_key: str | bytes | None = None,
    public_key: str | bytes | None = None,
    secret_key: str | bytes | None = None,
    lost_after: Duration = LOST_AFTER_S,
) -> SocketOptions:
    """Check options of a `Client`. Raises TypeError and ValueError."""
    configure = None
    if server_key is not None:
        configure = _curve_keys(server_key, public_key, secret_key)
    elif public_key is not None or secret_key is not None:
        raise ValueError("public_key and secret_key need server_key, too")
    seconds, (least, most) = checked_seconds(lost_after, "lost_after"), _LOST_AFTER_S
    if not least <= seconds <= most:
        raise ValueError(f"lost_after is {lost_after!r}; expected {least} to {most} seconds")
    return SocketOptions(configure, seconds)


def _curve_keys(
    server_key: str | bytes, public_key: str | bytes | None, secret_key: str | bytes | None
) -> ConfigureSocket:
    if public_key is None or secret_key is None:
        raise ValueError("server_key needs public_key and secret_key, too")
    given = {"server_key": server_key, "public_key": public_key, "secret_key": secret_key}
    keys = [_checked_key(key, name) for name, key in given.items()]

    def configure(socket: "zmq.Socket[bytes]") -> None:
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = keys

    return configure


def _checked_key(key: str | bytes, what: str) -> bytes:
    """Return a CURVE key as bytes; errors do not show the key, which may be secret."""
    expected = "expected 40 characters of Z85, or 32 bytes"
    if not isinstance(key, str | bytes):
        raise TypeError(f"{what} is of {type(key)}; {expected}")
    if isinstance(key, bytes) and len(key) == _KEY_BYTES:
        return key
    try:
        encoded = key.encode("ascii") if isinstance(key, str) else key
        if len(z85.decode(encoded)) == _KEY_BYTES:
            return encoded
    except (KeyError, ValueError, struct.error):  # bad characters, or too large a number
        pass
    raise ValueError(f"{what} is not a CURVE key; {expected}")
