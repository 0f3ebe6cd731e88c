"""Own: an object in a tree of owners, and how the tree ends.

Who may call it: the thread whose mailbox the object was given; `inc_seqnum` and `terminate` of a
root that is shared may come from any thread.

Terminating goes down the tree as `Term`, and comes back up as `TermAck`: an object is destroyed
once it is terminating, every command that was announced by `inc_seqnum` has arrived, and all acks
it waits for are in.  A child that arrives late, in an owner already terminating, is told at once.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from mq.command import Command, LaunchedChild, Term, TermAck, TermRequest

if TYPE_CHECKING:
    from mq.mailbox import Mailbox


class Own:
    """An object that lives in the thread that reads `mailbox`."""

    def __init__(self, mailbox: Mailbox[Command]) -> None:
        self.mailbox = mailbox
        self._owner: Own | None = None
        self._owned: dict[Own, None] = {}  # an ordered set
        self._terminating = False
        self._seqnum_lock = Lock()  # a leaf: nothing is called while it is held
        self._sent_seqnum = 0  # any thread, under the lock
        self._processed_seqnum = 0  # own thread
        self._term_acks = 0  # own thread
        self.linger_ms = -1
        self.destroyed = False

    @property
    def terminating(self) -> bool:
        """Whether the end has begun."""
        return self._terminating

    def inc_seqnum(self) -> None:
        """Announce a command that must arrive before this object may go.  Any thread."""
        with self._seqnum_lock:
            self._sent_seqnum += 1

    def process_seqnum(self) -> None:
        """An announced command has arrived."""
        self._processed_seqnum += 1
        self.check_term_acks()

    def launch_child(self, child: Own) -> None:
        """Become the owner of `child`, which lives in whatever thread reads its mailbox."""
        child._owner = self
        self.inc_seqnum()
        self.mailbox.send(LaunchedChild(self, child))

    def process_own(self, child: Own) -> None:
        """See `LaunchedChild`."""
        if self._terminating:
            self.register_term_acks(1)
            child.mailbox.send(Term(child, 0))
        else:
            self._owned[child] = None

    def terminate(self) -> None:
        """Begin the end, by asking the owner if there is one."""
        if self._terminating:
            return
        if self._owner is None:
            self.process_term(self.linger_ms)
        else:
            self._owner.mailbox.send(TermRequest(self._owner, self))

    def process_term_request(self, child: Own) -> None:
        """See `TermRequest`.  One that crosses our own `Term` to the child is answered already."""
        if self._terminating or child not in self._owned:
            return
        del self._owned[child]
        self.register_term_acks(1)
        child.mailbox.send(Term(child, self.linger_ms))

    def process_term(self, linger_ms: int) -> None:
        """See `Term`."""
        assert not self._terminating, "terminated twice"
        owned, self._owned = self._owned, {}
        self.register_term_acks(len(owned))
        self._terminating = True
        for child in owned:
            child.mailbox.send(Term(child, linger_ms))
        self.check_term_acks()

    def register_term_acks(self, count: int) -> None:
        """Wait for so many more acks before going."""
        self._term_acks += count

    def unregister_term_ack(self) -> None:
        """One of the acks is in."""
        assert self._term_acks > 0, "an ack too many"
        self._term_acks -= 1
        self.check_term_acks()

    def process_term_ack(self) -> None:
        """See `TermAck`."""
        self.unregister_term_ack()

    def check_term_acks(self) -> None:
        """Go, if nothing more can come."""
        if not self._terminating or self._term_acks or self.destroyed:
            return
        with self._seqnum_lock:
            if self._sent_seqnum != self._processed_seqnum:
                return
        self.destroyed = True
        if self._owner is not None:
            self._owner.mailbox.send(TermAck(self._owner))
        self.process_destroy()

    def process_destroy(self) -> None:
        """Release what is held; called once, last of all."""
