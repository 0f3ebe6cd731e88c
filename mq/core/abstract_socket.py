"""AbstractSocket: what the core of a context knows of a socket.

`mq.sockets.base` implements it.  Each method and property says which thread may use it.
"""

from mq.core.own import Own
from mq.pipes.commands import Command
from mq.pipes.hwm import HighWaterMarks
from mq.pipes.pipe import Pipe
from mq.queues.mailbox import Mailbox


class AbstractSocket(Own):
    """A socket in slot `slot` of its context."""

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
        """What a ROUTER at the other end calls this socket; empty: the ROUTER chooses."""
        raise NotImplementedError

    @property
    def conflate(self) -> bool:
        """Whether connections made by this socket keep only the last message."""
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
