"""SocketContext: what `bind` and `connect` of a socket return, for use as a with-block.

Used in the thread of its socket.
"""

from typing import Generic, Protocol, TypeVar


class Disconnectable(Protocol):
    """What a `SocketContext` asks of its socket."""

    @property
    def closed(self) -> bool:
        """Whether the socket is closed."""

    def unbind(self, addr: str | bytes) -> None:
        """Accept no more connections to `addr`."""

    def disconnect(self, addr: str | bytes) -> None:
        """End the connections made to `addr`."""


SocketT = TypeVar("SocketT", bound=Disconnectable)


class SocketContext(Generic[SocketT]):
    """Undoes a bind or connect when its with-block is left, unless the socket is closed."""

    def __init__(self, socket: SocketT, kind: str, address: str) -> None:
        self.socket = socket
        self.kind = kind
        self.addr = address

    def __enter__(self) -> SocketT:
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
