"""Endpoints: the inproc names of a context, and connections waiting for a bind.

Any thread. One lock guards both tables: a bind, an unbind, a close and the end of the context see a
connection not at all or complete. An interrupt may leave a connection half complete: the far end
still pending, or the near end's socket repeating the call. Either completes it for the owner chosen
at first.

Lock order: this lock, then a `PendingConnection`'s. Mailboxes have none.
"""

from _purgatory_cpython.locks import new_lock
from mq.constants import Errno
from mq.core.own import AbstractSocket
from mq.errors import ZMQError
from mq.pipes.pending_connection import FarEndOwner
from mq.pipes.pipe import Pipe


class Endpoints:
    """The inproc names of one context."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._bound: dict[str, AbstractSocket] = {}
        self._pending: dict[str, list[Pipe]] = {}  # far ends, in the order connected
        self._orphan_owner: FarEndOwner | None = None  # gets the far ends once the context ends

    def bind(self, name: str, socket: AbstractSocket) -> None:
        """Bind `socket` to `name`, and complete the connections that wait. EADDRINUSE.

        Repeatable: the caller checks `is_bound` first.
        """
        with self._lock:
            if self._bound.get(name, socket) is not socket:
                raise ZMQError(Errno.EADDRINUSE)
            self._bound[name] = socket
            waiting = self._pending.get(name, [])
            while True:  # without a condition: see `_purgatory_cpython.locks`
                if not waiting:
                    break
                _complete(waiting[0], socket)
                del waiting[0]
            self._pending.pop(name, None)

    def is_bound(self, name: str) -> bool:
        """Whether a socket has `name`."""
        return name in self._bound

    def unbind(self, name: str, socket: AbstractSocket) -> bool:
        """Free `name` and return True, if `socket` has it. Its connections stay."""
        with self._lock:
            if self._bound.get(name) is not socket:
                return False
            del self._bound[name]
            return True

    def unbind_all(self, socket: AbstractSocket) -> None:
        """Free every name of `socket`: no new pipe can come."""
        with self._lock:
            for name in [n for n, s in self._bound.items() if s is socket]:
                del self._bound[name]

    def connect(self, name: str, far: Pipe) -> None:
        """Give `far` to the socket bound to `name`, now or later. Repeatable.

        The caller owns the near end, which must have a sink before it processes commands.
        """
        with self._lock:
            owner = _chosen_owner(far) or self._bound.get(name) or self._orphan_owner
            if owner is not None:
                _complete(far, owner)
            elif far not in self._pending.setdefault(name, []):
                self._pending[name].append(far)

    def cancel(self, near: Pipe, orphan_owner: FarEndOwner) -> None:
        """Stop waiting for a bind of `near`; `orphan_owner` ends its far end. Repeatable."""
        with self._lock:
            for name, waiting in list(self._pending.items()):
                if near.peer in waiting:
                    _complete(near.peer, orphan_owner)
                    waiting.remove(near.peer)
                if not waiting:
                    del self._pending[name]

    def cancel_all(self, orphan_owner: FarEndOwner) -> None:
        """Transfer all pending connections, also later ones, to `orphan_owner`. Repeatable."""
        with self._lock:
            self._orphan_owner = orphan_owner
            for waiting in self._pending.values():
                for far in waiting:
                    _complete(far, orphan_owner)
            self._pending.clear()


def _complete(far: Pipe, owner: FarEndOwner) -> None:
    # Give `far` to `owner`, or to the owner chosen before an interrupt. Repeatable.
    pending = far.peer.pending
    assert pending is not None
    if pending.owner is None:
        if isinstance(owner, AbstractSocket):
            far.set_own_hwms_before_bind(owner.hwms)  # before the owner is told
        pending.owner = owner
    pending.attach(far)
    if isinstance(pending.owner, AbstractSocket):
        far.send_inproc_connected(pending.owner.hwms, pending.owner.routing_id)


def _chosen_owner(far: Pipe) -> FarEndOwner | None:
    pending = far.peer.pending
    assert pending is not None
    return pending.owner


def inproc_name(address: str) -> str:
    """Return an inproc address's name; EINVAL, or EPROTONOSUPPORT for other protocols."""
    protocol, separator, name = address.partition("://")
    if not separator or not protocol or not name:
        raise ZMQError(Errno.EINVAL)
    if protocol != "inproc":
        raise ZMQError(Errno.EPROTONOSUPPORT)
    return name
