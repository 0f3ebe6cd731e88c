"""SocketBase: what all socket types share.

A socket belongs to one thread at a time, and to the reaper once it is closed. Other threads send
commands (`mq.sockets.command_loop`), save for `announce` and the properties that the other side of
a connection reads under the lock of `mq.core.endpoints`.
"""

import errno
from functools import partial
from typing import ClassVar, Final

from _purgatory_cpython.real_time import real_seconds
from mq.constants import Errno, PollEvent, SocketOption, SocketType
from mq.core.context_core import ContextCore
from mq.core.endpoints import inproc_name
from mq.core.options import Options, Value
from mq.errors import Again, ZMQError
from mq.pipes.commands import Call
from mq.pipes.flow_control import HighWaterMarks
from mq.pipes.message import MessagePart, Part
from mq.pipes.pending_connection import PendingConnection
from mq.pipes.pipe import Pipe, pipepair
from mq.pipes.round_robin import OK, Sent
from mq.sockets.command_loop import CommandLoop

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


class SocketBase(CommandLoop):
    """A socket without a type."""

    socket_type: ClassVar[SocketType]
    default_linger: ClassVar[int] = -1

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        super().__init__(ctx, slot)
        self.options: Options = Options(self.socket_type)
        self.options.set(SocketOption.LINGER, self.default_linger if ctx.blocky else 0)
        self.rcvmore: bool = False
        # The part received last until its caller holds it, then returned parts.
        self.in_hand: Part | None = None
        self.given_back: list[Part] = []
        self.last_endpoint: bytes = b""
        # A dict: each of its operations is atomic, and makes no call.
        self._pipes: dict[Pipe, None] = {}

    # -- read by the other side of a connection ------------------------------------------------

    @property
    def hwms(self) -> HighWaterMarks:
        return HighWaterMarks(self.options[SocketOption.SNDHWM], self.options[SocketOption.RCVHWM])

    @property
    def routing_id(self) -> bytes:
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
        if self.ctx.endpoints.is_bound(name):
            raise ZMQError(Errno.EADDRINUSE)
        self._perform(partial(self.ctx.endpoints.bind, name, self))
        self.last_endpoint = _bytes_of_address(address)

    def connect(self, address: str) -> None:
        """Connect to an inproc address, bound or not."""
        self._check_usable()
        name = inproc_name(address)
        near, far = pipepair(self.hwms, None, self.conflate)
        near.endpoint, near.mailbox, near.pending = name, self.mailbox, PendingConnection()
        far.routing_id = self.routing_id
        near.given_id = self.options.connect_routing_id
        self._perform(partial(self._connect, name, near))
        self.options.connect_routing_id = b""  # for one connection
        self.last_endpoint = _bytes_of_address(address)

    def _connect(self, name: str, near: Pipe) -> None:
        self.ctx.endpoints.connect(name, near.peer)
        self._attach(near)

    def unbind(self, address: str) -> None:
        """Accept no new connections to `address`; present ones stay.

        If only connected, as in pyzmq: `disconnect`. ENOENT if neither.
        """
        self._check_usable()
        if not self.ctx.endpoints.unbind(inproc_name(address), self):
            self.disconnect(address)

    def disconnect(self, address: str) -> None:
        """End all connections made to `address` from here.

        If only bound, as in pyzmq: `unbind`. ENOENT if neither.
        """
        self._check_usable()
        self._perform(partial(self._disconnect, inproc_name(address)))
        self.process_commands()

    def _disconnect(self, name: str) -> None:
        pipes = [pipe for pipe in self._pipes if pipe.endpoint == name]
        if not (pipes or self.ctx.endpoints.unbind(name, self)):
            raise ZMQError(errno.ENOENT)
        for pipe in pipes:
            self.ctx.endpoints.cancel(pipe, self.ctx.reaper)
            pipe.terminate(False)
            self.xforget(pipe)
            self._drop_partial_message(pipe)
            pipe.endpoint = None

    def _attach(self, pipe: Pipe) -> None:
        if pipe.attached:
            return
        pipe.sink = self
        pipe.set_hwms(self.hwms)  # the options may have changed since
        self.xattach(pipe)
        self._pipes[pipe] = None
        pipe.attached = True
        if self.terminating:  # in the reaper, which no signal interrupts
            self.register_term_acks(1)
            pipe.terminate(False)

    def _drop_partial_message(self, pipe: Pipe) -> None:
        # The rest of a message from this pipe will not come.
        if pipe is self.xsource():
            self.rcvmore = False
            self.given_back = []
            if isinstance(self.in_hand, MessagePart) and self.in_hand.more:
                self.in_hand = None

    # -- sending and receiving ---------------------------------------------------------------

    def send(self, part: Part, flags: int) -> None:
        """Send a part, waiting for room as long as SNDTIMEO allows; else `Again`."""
        if self._unusable:
            self._raise_unusable()
        if self.mailbox._queue:  # `peek`, without the call
            self._process_queued_commands()
        try:
            sent = self.xsend(part)
            if sent is not OK:
                self._send_blocking(part, flags, sent)
        except ZMQError:
            raise
        except BaseException:  # an interrupt: the part may not have been flushed
            self.mailbox.send(Call(self, self._flush))
            raise

    def _flush(self) -> None:
        for pipe in self._pipes:
            pipe.flush()

    def rollback(self) -> None:
        """See `SocketHooks.xrollback`."""
        if not self._unusable:
            self.xrollback()

    def _send_blocking(self, part: Part, flags: int, sent: Sent) -> None:
        timeout = 0 if flags & DONTWAIT else self.options.sndtimeo
        if sent is Sent.BROKEN:
            # The message is lost.
            if timeout == 0:
                raise Again
            return
        deadline = None if timeout is None else real_seconds() + timeout
        while sent is not OK:
            self._wait_for_command(deadline)
            sent = self.xsend(part)
            if sent is not OK and _is_past(deadline):
                raise Again

    def recv(self, flags: int) -> Part:
        """Return the next part, waiting for it as long as RCVTIMEO allows; else `Again`.

        The part stays in hand until `drop`: an interrupted caller gets it again.
        """
        if self._unusable:
            self._raise_unusable()
        if self.mailbox._queue:  # as above
            self._process_queued_commands()
        part = self.in_hand
        if part is None:
            part = self.xrecv()
            if part is None:
                part = self._recv_blocking(flags)
            self.in_hand = part
        self.rcvmore = isinstance(part, MessagePart) and part.more
        return part

    def drop(self) -> None:
        """Drop the part that `recv` has returned: its caller holds it."""
        given_back = self.given_back
        if given_back:
            self.in_hand = given_back[0]
            del given_back[0]
        else:
            self.in_hand = None

    @property
    def mid_recv(self) -> bool:
        """Whether the part dropped last is followed by another of its message."""
        return self.in_hand is not None or self.rcvmore

    def give_back(self, parts: list[Part]) -> None:
        """Have `recv` return `parts` once more, before all else."""
        if self.in_hand is not None:
            parts = [*parts, self.in_hand]
        self.given_back[:0] = parts[1:]
        self.in_hand = parts[0] if parts else None

    def _recv_blocking(self, flags: int) -> Part:
        timeout = 0 if flags & DONTWAIT else self.options.rcvtimeo
        deadline = None if timeout is None else real_seconds() + timeout
        while True:
            self._wait_for_command(deadline)
            part = self.xrecv()
            if part is not None:
                return part
            if _is_past(deadline):
                raise Again

    def events(self) -> int:
        """Return POLLIN, POLLOUT or both: what could be done without waiting."""
        self._check_usable()
        self.process_commands()
        readable = self.in_hand is not None or self.xhas_in()
        return (_POLLIN if readable else 0) | (_POLLOUT if self.xhas_out() else 0)

    # -- options -----------------------------------------------------------------------------

    def set(self, option: int, value: Value) -> None:
        """Set an option of the right type. High-water marks change live connections too."""
        if self._unusable:
            self._raise_unusable()
        if self.xset(option, value):
            return
        if option in (SocketOption.SUBSCRIBE, SocketOption.UNSUBSCRIBE):
            raise ZMQError(Errno.EINVAL)  # types with this option override `xset`
        self.options.set(option, value)
        if option in (SocketOption.SNDHWM, SocketOption.RCVHWM):
            self._perform(self._change_hwms)

    def _change_hwms(self) -> None:
        # Commands are delivered in order: connections announced before are attached.
        for pipe in self._pipes:
            pipe.set_hwms(self.hwms)

    def get(self, option: int) -> Value:
        """Read an option."""
        if self._unusable:
            self._raise_unusable()
        special: Value | None = self._socket_option(option)
        return self.options.get(option) if special is None else special

    def _socket_option(self, option: int) -> Value | None:
        value: Value | None = None
        match option:
            case SocketOption.EVENTS:
                value = self.events()
            case SocketOption.FD:
                value = self.mailbox.fileno()
            case SocketOption.RCVMORE:
                value = int(self.rcvmore)
            case SocketOption.TYPE:
                value = int(self.socket_type)
            case SocketOption.LAST_ENDPOINT:
                value = self.last_endpoint
            case SocketOption.TOPICS_COUNT:
                self._check_usable()
                value = self.xtopics_count()
        return value

    # -- commands ----------------------------------------------------------------------------

    def process_bind(self, pipe: Pipe) -> None:
        self._attach(pipe)
        self.process_announced(pipe)

    def pipe_terminated(self, pipe: Pipe) -> None:
        """Forget a dead pipe."""
        if pipe in self._pipes:
            self.xterminated(pipe)
            del self._pipes[pipe]
            if self.terminating:
                self.process_term_ack()

    # -- the end -----------------------------------------------------------------------------

    def process_term(self) -> None:
        """Free the names, so that no socket connects; then end the connections."""
        self.ctx.endpoints.unbind_all(self)
        self.register_term_acks(len(self._pipes))
        for pipe in list(self._pipes):
            pipe.terminate(False)
        super().process_term()

    def process_destroy(self) -> None:
        """Free the slot and the descriptor."""
        self.ctx.destroy_socket(self)
        self.mailbox.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "stopped" if self._stopped else "open"
        return f"<{self.socket_type.name} {state} slot {self.slot} pipes {list(self._pipes)}>"


def _bytes_of_address(address: str) -> bytes:
    return address.encode(errors="surrogateescape")  # as `mq.socket` has decoded it


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and real_seconds() >= deadline
