"""SocketContext: what `bind` and `connect` of a socket return, for use as a with-block.

The same thread as its socket's.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mq.socket import Socket


class SocketContext:
    """Ends what bind or connect began when its with-block is left."""

    def __init__(self, socket: "Socket", kind: str, address: str) -> None:
        self.socket = socket
        self.kind = kind
        self.addr = address

    def __enter__(self) -> "Socket":
        return self.socket

    def __exit__(self, *args: object) -> None:
        if self.socket.closed:
            return
        if self.kind == "bind":
            self.socket.unbind(self.addr)
        else:
            self.socket.disconnect(self.addr)

    def __repr__(self) -> str:
        return f"<SocketContext({self.kind}={self.addr!r})>"
