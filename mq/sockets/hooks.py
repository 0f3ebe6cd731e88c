"""SocketHooks: what differs between socket types; methods named x... as in libzmq.

Called in the socket's thread, by `mq.sockets.base`.
"""

from mq.constants import Errno
from mq.core.options import Value
from mq.core.own import AbstractSocket
from mq.errors import ZMQError
from mq.pipes.commands import Command
from mq.pipes.message import Part
from mq.pipes.pipe import Pipe
from mq.pipes.round_robin import FairQueue, Sent
from mq.queues.mailbox import Mailbox


class SocketHooks(AbstractSocket):
    """A socket that receives from its peers in turn, and cannot send."""

    def __init__(self, mailbox: Mailbox[Command], slot: int) -> None:
        super().__init__(mailbox, slot)
        self._fair_queue = FairQueue()

    def xattach(self, pipe: Pipe) -> None:
        """Add a new connection."""
        self._fair_queue.attach(pipe)

    def xterminated(self, pipe: Pipe) -> None:
        """Remove an ended connection."""
        self._fair_queue.terminated(pipe)

    def xsend(self, part: Part) -> Sent:  # noqa: ARG002 - for types that do send
        """Send a part if possible at once."""
        raise ZMQError(Errno.ENOTSUP)

    def xrollback(self) -> None:
        """Take back an incomplete message: the next part begins another. Repeatable."""

    def xrecv(self) -> Part | None:
        """Receive a part if possible at once."""
        return self._fair_queue.recv()

    def xforget(self, pipe: Pipe) -> None:
        """Forget what was taken from a pipe and not returned: the socket disconnects."""

    def xhas_in(self) -> bool:
        """Whether `xrecv` would return a part."""
        return self._fair_queue.has_in()

    def xhas_out(self) -> bool:
        """Whether `xsend` would accept a part."""
        return False

    def xsource(self) -> Pipe | None:
        """Return the pipe of the part received last."""
        return self._fair_queue.last_pipe

    def read_activated(self, pipe: Pipe) -> None:
        """See `PipeEventSink`."""
        self._fair_queue.activated(pipe)

    def write_activated(self, pipe: Pipe) -> None:
        """See `PipeEventSink`."""

    def pipe_connected(self, pipe: Pipe) -> None:
        """See `PipeEventSink`."""

    def xtopics_count(self) -> int:
        """Return the number of topics subscribed to; EINVAL for types without topics."""
        raise ZMQError(Errno.EINVAL)

    def xset(self, option: int, value: Value) -> bool:  # noqa: ARG002 - for types with options
        """Set an option of this socket type; False if `option` is another."""
        return False
