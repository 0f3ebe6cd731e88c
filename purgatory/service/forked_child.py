"""What a forked child does with its copies of a parent's clients.

If the parent is killed, the child's copies of descriptors keep the connection open, and the server
would wait for the leases of that worker. A lock that another thread held at the fork is held for
ever: the child would hang instead of raising Unavailable. `OPEN` is used by the I/O threads;
`close_all` and `after_fork` by the child's only thread.
"""

import contextlib
import os
import socket
from typing import Any, Final, Protocol

from _purgatory_cpython import fork

# The two ends of a connection: unique in the process.
_Ends = tuple[Any, Any]


class OpenConnections:
    """The connections of all clients of the process, by descriptor.

    ZeroMQ closes a descriptor before the client knows, and another file may get its number. So the
    child closes a descriptor only if the ends of its connection are the same.
    """

    def __init__(self) -> None:
        self._ends: dict[int, _Ends] = {}

    def add(self, descriptor: int, address: str) -> None:
        """Note a connection to a server's address, unless it has ended."""
        ends = _ends_of(descriptor)
        if ends is not None and _is_of(ends[1], address):
            self._ends[descriptor] = ends

    def remove(self, descriptor: int) -> None:
        """Forget a connection. Idempotent."""
        self._ends.pop(descriptor, None)

    def close_all(self) -> None:
        """Close the connections, in the child."""
        known, self._ends = self._ends, {}
        for descriptor, ends in known.items():
            if _ends_of(descriptor) == ends:
                with contextlib.suppress(OSError):
                    os.close(descriptor)


def _is_of(peer: Any, address: str) -> bool:
    if isinstance(peer, tuple):
        return address.startswith("tcp://") and address.endswith(f":{peer[1]}")
    return bool(peer) and address == f"ipc://{peer}"


def _ends_of(descriptor: int) -> _Ends | None:
    """Return both addresses of a connected socket; None: no such socket."""
    try:
        found = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        return found.getsockname(), found.getpeername()
    except OSError:
        return None
    finally:
        found.detach()


class LockOwner(Protocol):
    """An object with locks that several threads take."""

    def renew_locks(self) -> None:
        """Replace the locks by new ones."""


class ClientLocks:
    """Renews the locks of a client's parts in a forked child; see the module."""

    def __init__(self, *owners: LockOwner) -> None:
        self._owners = owners
        fork.register(self)

    def after_fork(self) -> None:
        """See `Forkable`."""
        for owner in self._owners:
            owner.renew_locks()


OPEN: Final = OpenConnections()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OPEN.close_all)
