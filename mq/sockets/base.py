"""SocketBase: what all socket types share - mailbox, endpoints, pipes, blocking, termination.

A socket belongs to one thread at a time, and to the reaper once it is closed.  Other threads reach
it by commands only, save for `inc_seqnum` and the three properties the other side of a connection
reads under the lock of `mq.core.endpoints`.

Each socket type is a subclass that implements the methods named x..., as in libzmq.
"""

import errno
from time import monotonic
from typing import ClassVar, Final

from mq.constants import Errno, PollEvent, SocketOption, SocketType
from mq.core.abstract_socket import AbstractSocket
from mq.core.context_core import ContextCore
from mq.core.endpoints import inproc_name
from mq.core.options import Options, Value
from mq.errors import Again, ContextTerminated, ZMQError
from mq.pipes.commands import Command, Stop, WakeUp
from mq.pipes.hwm import HighWaterMarks
from mq.pipes.load_balancer import OK, Sent
from mq.pipes.message import MessagePart, Part
from mq.pipes.pipe import Pipe
from mq.queues.mailbox import Mailbox

DONTWAIT: Final = 1
_POLLIN: Final = int(PollEvent.POLLIN)
_POLLOUT: Final = int(PollEvent.POLLOUT)
_CONFLATING: Final = (
    SocketType.DEALER,
    SocketType.PULL,
    SocketType.PUSH,
    SocketType.PUB,
    SocketType.SUB,
)


class SocketBase(AbstractSocket):
    """A socket without a type."""

    socket_type: ClassVar[SocketType]
    default_linger: ClassVar[int] = -1

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        mailbox: Mailbox[Command] = Mailbox()
        super().__init__(mailbox, slot)
        self.ctx = ctx
        self.options = Options()
        self.options.set(SocketOption.LINGER, self.default_linger if ctx.blocky else 0)
        self.rcvmore = False
        self.last_endpoint = b""
        self._stopped = False  # the context is terminating
        self._unusable = False  # closed, stopped or forked; the hot path checks this alone
        self._forked = False
        self._pipes: list[Pipe] = []

    # -- read by the other side of a connection ------------------------------------------------

    @property
    def hwms(self) -> HighWaterMarks:
        """The high-water marks a new connection starts with."""
        return HighWaterMarks(self.options[SocketOption.SNDHWM], self.options[SocketOption.RCVHWM])

    @property
    def routing_id(self) -> bytes:
        """What a ROUTER at the other end calls this socket; empty: whatever it likes."""
        return self.options.routing_id

    @property
    def conflate(self) -> bool:
        """Whether connections made by this socket keep only the last message."""
        return bool(self.options[SocketOption.CONFLATE]) and self.socket_type in _CONFLATING

    # -- endpoints ---------------------------------------------------------------------------

    def bind(self, address: str) -> None:
        """Accept connections to an inproc address."""
        self._check_usable()
        name = inproc_name(address)
        self.ctx.endpoints.bind(name, self)
        self.last_endpoint = address.encode()
        self._process_queued_commands()

    def connect(self, address: str) -> None:
        """Connect to an inproc address, bound or not yet bound."""
        self._check_usable()
        name = inproc_name(address)
        pipe = self.ctx.endpoints.connect(name, self)
        pipe.endpoint = name
        self.last_endpoint = address.encode()
        self._attach(pipe)

    def unbind(self, address: str) -> None:
        """Accept no more connections to `address`; those there are stay.  ENOENT if not bound."""
        self._check_usable()
        if not self.ctx.endpoints.unbind(inproc_name(address), self):
            raise ZMQError(errno.ENOENT)

    def disconnect(self, address: str) -> None:
        """End all connections made to `address` from here.  ENOENT if there are none."""
        self._check_usable()
        name = inproc_name(address)
        pipes = [pipe for pipe in self._pipes if pipe.endpoint == name]
        if not pipes:
            raise ZMQError(errno.ENOENT)
        for pipe in pipes:
            pipe.endpoint = None
            if pipe.pending is not None:
                self.ctx.endpoints.cancel(pipe, self.ctx.reaper)
            pipe.terminate(False)
            self._drop_partial_message(pipe)
        self.process_commands()

    def _attach(self, pipe: Pipe) -> None:
        pipe.sink = self
        self._pipes.append(pipe)
        pipe.set_hwms(self.hwms)  # the options may have changed since
        self.xattach(pipe)
        if self.terminating:
            self.register_term_acks(1)
            pipe.terminate(False)

    def _drop_partial_message(self, pipe: Pipe) -> None:
        # If the pipe ends in mid-message, no more parts of that message will come.
        if pipe is self.xsource():
            self.rcvmore = False

    # -- sending and receiving ---------------------------------------------------------------

    def send(self, part: Part, flags: int) -> None:
        """Send a part, waiting for room as long as SNDTIMEO allows; else `Again`."""
        if self._unusable:
            self._raise_unusable()
        if self.mailbox.peek():
            self._process_queued_commands()
        sent = self.xsend(part)
        if sent is not OK:
            self._send_blocking(part, flags, sent)

    def _send_blocking(self, part: Part, flags: int, sent: Sent) -> None:
        timeout = 0 if flags & DONTWAIT else self.options.sndtimeo
        if sent is Sent.BROKEN:
            # This message is lost.  A caller that does not wait is told so.
            if timeout == 0:
                raise Again
            return
        deadline = None if timeout is None else monotonic() + timeout
        while sent is not OK:
            self._wait_for_command(deadline)
            sent = self.xsend(part)
            if sent is not OK and _is_past(deadline):
                raise Again

    def recv(self, flags: int) -> Part:
        """Receive a part, waiting for it as long as RCVTIMEO allows; else `Again`."""
        if self._unusable:
            self._raise_unusable()
        if self.mailbox.peek():
            self._process_queued_commands()
        part = self.xrecv()
        if part is None:
            part = self._recv_blocking(flags)
        self.rcvmore = isinstance(part, MessagePart) and part.more
        return part

    def _recv_blocking(self, flags: int) -> Part:
        timeout = 0 if flags & DONTWAIT else self.options.rcvtimeo
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            self._wait_for_command(deadline)
            part = self.xrecv()
            if part is not None:
                return part
            if _is_past(deadline):
                raise Again

    def _wait_for_command(self, deadline: float | None) -> None:
        # Process commands once more when the deadline has passed: to raise `Again` while a command
        # is there would be wrong.
        timeout = None if deadline is None else max(0.0, deadline - monotonic())
        command = self.mailbox.recv(timeout)
        if command is not None:
            command.deliver()
        if self.closed:
            self.ctx.reap(self)  # another thread closed it and left the hand-over to this one
        self._process_queued_commands()

    def events(self) -> int:
        """Say what could be done without waiting: POLLIN, POLLOUT or both."""
        self._check_usable()
        self.process_commands()
        return (_POLLIN if self.xhas_in() else 0) | (_POLLOUT if self.xhas_out() else 0)

    def process_commands(self) -> None:
        """Deliver all commands, without waiting; `ContextTerminated` if one was `Stop`.

        Afterwards the descriptor signals the next command, as a reader of EVENTS expects.
        """
        while (command := self.mailbox.recv(0)) is not None:
            command.deliver()
        if self._unusable:
            self._raise_unusable()

    def _process_queued_commands(self) -> None:
        # While the mailbox has not been found empty its reader counts as awake, and commands need
        # no signal.
        mailbox = self.mailbox
        while mailbox.peek() and (command := mailbox.recv(0)) is not None:
            command.deliver()
        if self._unusable:
            self._raise_unusable()

    def _check_usable(self) -> None:
        if self._unusable:
            self._raise_unusable()
        self._process_queued_commands()

    def _raise_unusable(self) -> None:
        if self.closed or self._forked:
            raise ZMQError(Errno.ENOTSOCK)
        raise ContextTerminated

    # -- options -----------------------------------------------------------------------------

    def set(self, option: int, value: Value) -> None:
        """Set an option of the right type.  High-water marks change live connections too."""
        if self._unusable:
            self._raise_unusable()
        if self.xset(option, value):
            return
        if option in (SocketOption.SUBSCRIBE, SocketOption.UNSUBSCRIBE):
            raise ZMQError(Errno.EINVAL)  # handled by `xset` of the types that have it
        self.options.set(option, value)
        if option in (SocketOption.SNDHWM, SocketOption.RCVHWM):
            self._change_hwms()

    def _change_hwms(self) -> None:
        if self.mailbox.peek():
            # Attach connections announced meanwhile.  That may consume the descriptor's edge, which
            # only `events` may do, so it is restored.
            self.process_commands()
            self.mailbox.send(WakeUp(self))
        for pipe in self._pipes:
            pipe.set_hwms(self.hwms)

    def get(self, option: int) -> Value:
        """Read an option."""
        if self._unusable:
            self._raise_unusable()
        special: Value | None = self._socket_option(option)
        return self.options.get(option) if special is None else special

    def _socket_option(self, option: int) -> Value | None:
        match option:
            case SocketOption.EVENTS:
                return self.events()
            case SocketOption.FD:
                return self.mailbox.fileno()
            case SocketOption.RCVMORE:
                return int(self.rcvmore)
            case SocketOption.TYPE:
                return int(self.socket_type)
            case SocketOption.LAST_ENDPOINT:
                return self.last_endpoint
        return None

    # -- commands ----------------------------------------------------------------------------

    def process_stop(self) -> None:
        """Note that the context is terminating."""
        self._stopped = self._unusable = True

    def process_bind(self, pipe: Pipe) -> None:
        """Attach the pipe of a socket that has connected to this one."""
        self._attach(pipe)
        self.process_seqnum()

    # -- events of pipes ---------------------------------------------------------------------

    def read_activated(self, pipe: Pipe) -> None:
        """Note that a dry pipe can be read again."""
        self.xread_activated(pipe)

    def write_activated(self, pipe: Pipe) -> None:
        """Note that a full pipe can be written again."""
        self.xwrite_activated(pipe)

    def pipe_connected(self, pipe: Pipe) -> None:
        """Note that a connection of ours that waited for a bind has been completed."""
        self.xconnected(pipe)

    def pipe_terminated(self, pipe: Pipe) -> None:
        """Note that a pipe is dead."""
        self.xterminated(pipe)
        self._pipes.remove(pipe)
        if self.terminating:
            self.unregister_term_ack()

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Hand the socket over to the reaper.  Takes no lock: finalizers come here.

        Messages sent and not yet read stay readable for their receivers.  If another thread waits
        inside `send` or `recv`, against the rules, that thread is woken and hands the socket over:
        the mailbox must not have two readers.
        """
        if self.closed:
            return
        if self._forked:  # the socket and a thread that waits in it are the parent's
            self.closed = True
            return
        self._unusable = True
        if self.mailbox.waiting:
            self.closed = True
            self.mailbox.send(Stop(self))
        else:
            # Last: after an interrupt before it, close can be called again, and the reaper adopts
            # a socket only once.
            self.ctx.reap(self)
            self.closed = True

    def disown(self) -> None:
        """Refuse all calls: in a forked child the socket is the parent's."""
        self._forked = self._unusable = True

    def process_in_reaper(self) -> None:
        """Deliver the commands to a closed socket."""
        while not self.destroyed and (command := self.mailbox.recv(0)) is not None:
            command.deliver()

    def process_term(self, linger: int) -> None:
        """Free the names first, so that no socket connects any more; then end the connections."""
        self.ctx.endpoints.unbind_all(self)
        self.register_term_acks(len(self._pipes))
        for pipe in list(self._pipes):
            pipe.terminate(False)
        super().process_term(linger)

    def process_destroy(self) -> None:
        """Free the slot and the descriptor."""
        self.ctx.destroy_socket(self)
        self.mailbox.close()

    # -- for the socket types-----------------------------------------------------------------

    def xattach(self, pipe: Pipe) -> None:
        """Note that a connection was made."""
        raise NotImplementedError

    def xterminated(self, pipe: Pipe) -> None:
        """Note that a connection has ended."""
        raise NotImplementedError

    def xsend(self, part: Part) -> Sent:  # noqa: ARG002 - for types that do send
        """Send a part if that can be done at once."""
        raise ZMQError(Errno.ENOTSUP)

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

    def __repr__(self) -> str:
        state = "closed" if self.closed else "stopped" if self._stopped else "open"
        return f"<{self.socket_type.name} {state} slot {self.slot} pipes {self._pipes}>"


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and monotonic() >= deadline
