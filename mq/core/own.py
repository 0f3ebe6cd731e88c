"""Own: objects in a tree, where an owner is destroyed only after everything it owns.

Every method but `announce` belongs to the thread that owns the object; other threads send commands.
An object is destroyed when three things hold:

* it has been told to terminate;
* everything announced by `announce` has arrived, so nothing is on its way to it;
* every acknowledgement it waits for (children, pipes) has arrived.

libzmq counts announcements by sequence numbers.  Here they are a set, so that the same one can be
made again, and can arrive again, after an interrupt.
"""

from _purgatory_cpython.mypyc_types import mypyc_attr
from mq.pipes.commands import Command, Term, TermAck
from mq.pipes.flow_control import HighWaterMarks
from mq.pipes.pipe import Pipe
from mq.queues.mailbox import Mailbox


@mypyc_attr(allow_interpreted_subclasses=True)
class Own:
    """A node of the tree.  `mailbox` is that of the thread the node lives in."""

    def __init__(self, mailbox: Mailbox[Command]) -> None:
        self.mailbox = mailbox
        self.owner: Own | None = None
        self.owned: set[Own] = set()
        self.terminating: bool = False
        self.destroyed: bool = False
        self._linger = 0  # ms, handed down to what is still owned when the end comes
        # Commands on their way: any thread adds, the owner removes. A dict, as each of its single
        # operations is atomic.
        self._announced: dict[object, None] = {}
        self._term_acks = 0

    # -- from any thread ---------------------------------------------------------------------

    def announce(self, item: object) -> None:
        """Announce a command that brings `item`; the object lives until its arrival. Idempotent.

        The caller must know by other means (a registry's lock) that the object is alive.
        """
        self._announced[item] = None

    # -- the tree ----------------------------------------------------------------------------

    def term_child(self, child: "Own", linger: int) -> None:
        """Send `Term` to an owned child."""
        self.owned.discard(child)
        self.register_term_acks(1)
        child.mailbox.send(Term(child, linger))

    def adopt(self, child: "Own") -> None:
        """Own a child from now on; one that comes too late is ended at once, with linger 0."""
        if self.terminating:
            self.term_child(child, 0)
        else:
            self.owned.add(child)

    # -- the end -----------------------------------------------------------------------------

    def process_term(self, linger: int) -> None:
        """End all owned objects, then this object. `linger` in ms."""
        assert not self.terminating
        self._linger = linger
        self.terminating = True
        for child in list(self.owned):
            self.term_child(child, linger)
        self.check_term_acks()

    def register_term_acks(self, count: int) -> None:
        """Wait for `count` more acknowledgements."""
        self._term_acks += count

    def unregister_term_ack(self) -> None:
        """Count an acknowledgement that has come."""
        assert self._term_acks > 0
        self._term_acks -= 1
        self.check_term_acks()

    def process_term_ack(self) -> None:
        """Note that a child has ended."""
        self.unregister_term_ack()

    def process_announced(self, item: object) -> None:
        """Note the arrival of an announced `item`. Idempotent."""
        self._announced.pop(item, None)
        self.check_term_acks()

    def check_term_acks(self) -> None:
        """Destroy this object if the three conditions hold, and tell its owner."""
        if not self.terminating or self.destroyed or self._term_acks or self._announced:
            return
        self.destroyed = True
        owner = self.owner
        self.process_destroy()
        if owner is not None:
            owner.mailbox.send(TermAck(owner))

    def process_destroy(self) -> None:
        """Release everything.  The last call to the object."""


class AbstractSocket(Own):
    """What the core of a context knows of the socket in slot `slot`; see `mq.sockets.base`."""

    def __init__(self, mailbox: Mailbox[Command], slot: int) -> None:
        super().__init__(mailbox)
        self.slot = slot
        self.closed = False

    # -- read by the other side of a connection, under the lock of `mq.core.endpoints` ---------

    @property
    def hwms(self) -> HighWaterMarks:
        """The high-water marks a new connection starts with."""
        raise NotImplementedError

    @property
    def routing_id(self) -> bytes:
        """The name by which a peer's ROUTER calls this socket; empty: the ROUTER chooses a name."""
        raise NotImplementedError

    # -- commands, delivered in the owner's thread ---------------------------------------------

    def process_bind(self, pipe: Pipe) -> None:
        """Own `pipe`, the far end of a connection that another socket made."""
        raise NotImplementedError

    def process_stop(self) -> None:
        """Fail all calls but `close` from now on: the context is terminating."""
        raise NotImplementedError

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Hand the socket over to the reaper.  Any thread; takes no lock."""
        raise NotImplementedError

    def process_in_reaper(self) -> None:
        """Deliver the commands that have come.  The reaper only, once the socket is closed."""
        raise NotImplementedError

    def disown(self) -> None:
        """Refuse all calls: the socket belongs to the parent process.  In a forked child only."""
        raise NotImplementedError
