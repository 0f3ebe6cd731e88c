"""Endpoints: the inproc names of a context, and connections that wait for a bind.

Called from any thread.  One lock guards both tables, so that a look-up and all that follows from
it (a socket's sequence number, a pending entry) are atomic: a bind, an unbind, a close and the
end of the context see a connection either not at all or complete.

Lock order: this lock, then a socket's seqnum lock or a `PendingConnection`'s. Mailboxes have none.
"""

from threading import Lock
from typing import Protocol

from mq.constants import Errno
from mq.core.abstract_socket import AbstractSocket
from mq.errors import ZMQError
from mq.pipes.commands import Bind, Command
from mq.pipes.pending import PendingConnection
from mq.pipes.pipe import Pipe, pipepair
from mq.queues.mailbox import Mailbox


class FarEndOwner(Protocol):
    """What can own the far end of a connection: a bound socket, or the reaper."""

    mailbox: Mailbox[Command]

    def inc_seqnum(self) -> None:
        """Announce one command."""

    def process_bind(self, pipe: Pipe) -> None:
        """Own `pipe` from now on."""


class Endpoints:
    """The inproc names of one context."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._bound: dict[str, AbstractSocket] = {}
        self._pending: dict[str, list[Pipe]] = {}  # far ends, in the order connected
        self._orphan_owner: FarEndOwner | None = None  # gets the far ends once the context ends

    def bind(self, name: str, socket: AbstractSocket) -> None:
        """Bind `socket` to `name`, and complete the connections that wait.  EADDRINUSE."""
        with self._lock:
            if name in self._bound:
                raise ZMQError(Errno.EADDRINUSE)
            self._bound[name] = socket
            for far in self._pending.pop(name, []):
                _complete(far, socket)

    def unbind(self, name: str, socket: AbstractSocket) -> bool:
        """Free `name` and return True, if `socket` has it.  Its connections stay."""
        with self._lock:
            if self._bound.get(name) is not socket:
                return False
            del self._bound[name]
            return True

    def unbind_all(self, socket: AbstractSocket) -> None:
        """Free every name `socket` has.  After this no new pipe can be on its way to it."""
        with self._lock:
            for name in [n for n, s in self._bound.items() if s is socket]:
                del self._bound[name]

    def connect(self, name: str, socket: AbstractSocket) -> Pipe:
        """Return the near end of a pipe to the socket bound to `name`, now or later.

        The caller owns the near end, and must give it a sink before it processes commands.
        """
        with self._lock:
            peer = self._bound.get(name)
            near, far = pipepair(socket.hwms, None if peer is None else peer.hwms, socket.conflate)
            near.mailbox = socket.mailbox
            far.routing_id = socket.routing_id
            if peer is None:
                near.pending = PendingConnection()
                if self._orphan_owner is None:
                    self._pending.setdefault(name, []).append(far)
                else:
                    _transfer(far, self._orphan_owner)
            else:
                near.routing_id = peer.routing_id
                far.mailbox = peer.mailbox
                peer.inc_seqnum()
                peer.mailbox.send(Bind(peer, far))
            return near

    def cancel(self, near: Pipe, orphan_owner: FarEndOwner) -> None:
        """Stop waiting for a bind of `near`, if it does; `orphan_owner` ends its far end."""
        with self._lock:
            for name, waiting in list(self._pending.items()):
                if near.peer in waiting:
                    waiting.remove(near.peer)
                    _transfer(near.peer, orphan_owner)
                    if not waiting:
                        del self._pending[name]

    def cancel_all(self, orphan_owner: FarEndOwner) -> None:
        """Transfer all pending connections, now and from now on, to `orphan_owner`."""
        with self._lock:
            self._orphan_owner = orphan_owner
            for waiting in self._pending.values():
                for far in waiting:
                    _transfer(far, orphan_owner)
            self._pending.clear()


def _complete(far: Pipe, socket: AbstractSocket) -> None:
    # The far end is complete before its owner learns of it.
    near = far.peer
    far.set_own_hwms_before_bind(socket.hwms)
    _transfer(far, socket)
    assert near.mailbox is not None
    far.send_inproc_connected(socket.hwms, socket.routing_id)


def _transfer(far: Pipe, owner: FarEndOwner) -> None:
    pending = far.peer.pending
    assert pending is not None
    owner.inc_seqnum()
    pending.attach(far, owner.mailbox, Bind(owner, far))


def inproc_name(address: str) -> str:
    """Return the name in an inproc address; EINVAL if it is none, EPROTONOSUPPORT if another's."""
    protocol, separator, name = address.partition("://")
    if not separator or not protocol or not name:
        raise ZMQError(Errno.EINVAL)
    if protocol != "inproc":
        raise ZMQError(Errno.EPROTONOSUPPORT)
    return name
