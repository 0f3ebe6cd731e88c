"""CurveKeys: the keys with which a client encrypts its connection, and the server's. Immutable."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zmq


class CurveKeys:
    """Sets the CURVE keys of a socket."""

    def __init__(
        self,
        server_key: str | bytes,
        public_key: str | bytes | None,
        secret_key: str | bytes | None,
    ) -> None:
        if public_key is None or secret_key is None:
            raise ValueError("server_key needs public_key and secret_key, too")
        self._keys = [
            key.encode("ascii") if isinstance(key, str) else key
            for key in (server_key, public_key, secret_key)
        ]

    def __call__(self, socket: "zmq.Socket[bytes]") -> None:
        """Set the keys of a socket."""
        socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = self._keys
