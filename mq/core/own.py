"""Own: an object whose end waits for all on its way, and is reported to its owner.

Every method but `announce` belongs to the thread that owns the object; other threads send commands.
An object is destroyed when:

* it has been told to terminate;
* everything announced has arrived;
* every acknowledgement (of owned objects and pipes) has arrived.

libzmq counts announcements. Here they are a set: one may be repeated after an interrupt.
"""

from _purgatory_cpython.mypyc_types import mypyc_attr
from mq.pipes.commands import Command, TermAck
from mq.pipes.flow_control import HighWaterMarks
from mq.pipes.pipe import Pipe
from mq.queues.mailbox import Mailbox


@mypyc_attr(allow_interpreted_subclasses=True)
class Own:
    """An object with an owner. `mailbox`: of the object's thread."""

    def __init__(self, mailbox: Mailbox[Command]) -> None:
        self.mailbox = mailbox
        self.owner: Own | None = None
        self.terminating: bool = False
        self.destroyed: bool = False
        # Any thread adds, the owner removes: operations of a dict are atomic.
        self._announced: dict[object, None] = {}
        self._term_acks = 0

    def announce(self, item: object) -> None:
        """Announce a command that brings `item`; the object lives until then. Idempotent.

        Any thread that knows, by a registry's lock, that the object is alive.
        """
        self._announced[item] = None

    def process_term(self) -> None:
        """Begin to end this object."""
        assert not self.terminating
        self.terminating = True
        self.check_term_acks()

    def register_term_acks(self, count: int) -> None:
        """Wait for `count` more acknowledgements."""
        self._term_acks += count

    def process_term_ack(self) -> None:
        """Count an acknowledgement that has come."""
        assert self._term_acks > 0
        self._term_acks -= 1
        self.check_term_acks()

    def process_announced(self, item: object) -> None:
        """Note the arrival of an announced `item`. Idempotent."""
        self._announced.pop(item, None)
        self.check_term_acks()

    def check_term_acks(self) -> None:
        """Destroy this object if its conditions hold; tell its owner."""
        if not self.terminating or self.destroyed or self._term_acks or self._announced:
            return
        self.destroyed = True
        owner = self.owner
        self.process_destroy()
        if owner is not None:
            owner.mailbox.send(TermAck(owner))

    def process_destroy(self) -> None:
        """Release everything: the last call."""


class AbstractSocket(Own):
    """The part of a socket for the core of its context."""

    def __init__(self, mailbox: Mailbox[Command], slot: int) -> None:
        super().__init__(mailbox)
        self.slot = slot
        self.closed = False

    # -- read by the other side of a connection, under the lock of `mq.core.endpoints` ---------

    @property
    def hwms(self) -> HighWaterMarks:
        """The high-water marks of a new connection."""
        raise NotImplementedError

    @property
    def routing_id(self) -> bytes:
        """The name of this socket at a peer's ROUTER; empty: the ROUTER chooses."""
        raise NotImplementedError

    # -- commands, delivered in the owner's thread ---------------------------------------------

    def process_bind(self, pipe: Pipe) -> None:
        """Own `pipe`, the far end of another socket's connection."""
        raise NotImplementedError

    def process_stop(self) -> None:
        """Fail all calls but `close` from now on: the context is terminating."""
        raise NotImplementedError

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Hand the socket over to the reaper. Any thread; takes no lock."""
        raise NotImplementedError

    def process_in_reaper(self) -> None:
        """Deliver the commands of a closed socket. The reaper only."""
        raise NotImplementedError

    def disown(self) -> None:
        """Refuse all calls, in a forked child."""
        raise NotImplementedError
