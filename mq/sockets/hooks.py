"""SocketHooks: what each socket type implements, the methods named x..., as in libzmq.

Called in the thread that owns the socket, by `mq.sockets.base`.
"""

from mq.constants import Errno
from mq.core.abstract_socket import AbstractSocket
from mq.core.options import Value
from mq.errors import ZMQError
from mq.pipes.load_balancer import Sent
from mq.pipes.message import Part
from mq.pipes.pipe import Pipe


class SocketHooks(AbstractSocket):
    """A socket that can neither send nor receive."""

    def xattach(self, pipe: Pipe) -> None:
        """Note that a connection was made."""
        raise NotImplementedError

    def xterminated(self, pipe: Pipe) -> None:
        """Note that a connection has ended."""
        raise NotImplementedError

    def xsend(self, part: Part) -> Sent:  # noqa: ARG002 - for types that do send
        """Send a part if that can be done at once."""
        raise ZMQError(Errno.ENOTSUP)

    def xrollback(self) -> None:
        """Take back the parts of a message begun: the next part begins another.  Repeatable."""

    def xrecv(self) -> Part | None:
        """Receive a part if that can be done at once."""
        raise ZMQError(Errno.ENOTSUP)

    def xhas_in(self) -> bool:
        """Whether `xrecv` would return a part."""
        return False

    def xhas_out(self) -> bool:
        """Whether `xsend` would accept a part."""
        return False

    def xsource(self) -> Pipe | None:
        """Where the part received last came from."""
        return None

    def xread_activated(self, pipe: Pipe) -> None:
        """Note that a pipe that was dry is not."""

    def xwrite_activated(self, pipe: Pipe) -> None:
        """Note that a pipe that was full is not."""

    def xconnected(self, pipe: Pipe) -> None:
        """Note that the far end of a pipe attached earlier is known now."""

    def xset(self, option: int, value: Value) -> bool:  # noqa: ARG002 - for types with options
        """Set an option of this socket type; False if `option` is another."""
        return False
