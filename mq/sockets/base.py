"""SocketBase: what all kinds of sockets share - commands, addresses, waiting, the end.

Who may call it: one thread at a time.  A socket may wander between threads if the hand-over orders
their memory; after `close` it belongs to the reaper.  Only `mailbox` and `inc_seqnum` are shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from errno import EINVAL, ENOENT, ENOTSOCK, ENOTSUP, EPROTONOSUPPORT
from typing import TYPE_CHECKING, ClassVar, TypeVar

from mq.command import Bind as BindCommand
from mq.command import Command, PipeHwm, Reap
from mq.constants import Flag, PollEvent, SocketType
from mq.constants import SocketOption as Opt
from mq.ctx import FORKED, Endpoint, Pending
from mq.errors import Again, ContextTerminated, MailboxClosed, ZMQError
from mq.mailbox import Mailbox
from mq.message import MORE, ROUTING_ID, Part, Payload
from mq.options import Options, Value
from mq.own import Own
from mq.pipe import Pipe, make_pipes

if TYPE_CHECKING:
    from mq.ctx import Ctx
    from mq.reaper import Reaper

R = TypeVar("R")
_DONTWAIT = int(Flag.DONTWAIT)
_SNDMORE = int(Flag.SNDMORE)


class SocketBase(Own):
    """A socket.  Kinds override the `x...` methods; pipes' events arrive in the socket's thread."""

    kind: ClassVar[SocketType]
    wants_routing_id: ClassVar[bool] = False
    conflatable: ClassVar[bool] = False

    def __init__(self, ctx: Ctx, reaper: Reaper) -> None:
        mailbox: Mailbox[Command] = Mailbox()
        super().__init__(mailbox)
        # Asked before each operation: a plain look whether there is a command, no more.
        self._commands = mailbox._queue
        self._ctx = ctx
        self._reaper = reaper
        self._pipes: dict[Pipe, None] = {}
        self._connected: dict[str, list[Pipe]] = {}
        self._failure: str | None = None  # why every call but close fails
        self.closed = False
        self.rcvmore = False
        self.options = Options()
        if not ctx.blocky:
            self.options.store(Opt.LINGER, 0)

    # Commands

    def process_commands(self) -> None:
        """Do what other threads asked for."""
        while self._commands:
            command = self.mailbox.recv(0)
            if command is not None:
                command.execute()

    def process_all_commands(self) -> None:
        """Likewise, and let the descriptor fall silent."""
        while (command := self.mailbox.recv(0)) is not None:
            command.execute()

    def process_stop(self) -> None:
        """See `Stop`."""
        self._failure = "Context was terminated"

    def process_bind(self, pipe: Pipe) -> None:
        """See `Bind`."""
        self.attach_pipe(pipe, connecting=False)

    def _enter(self) -> None:
        if self.closed:
            raise ZMQError(ENOTSOCK)
        if self._commands:
            self.process_commands()
        if self._failure is not None:
            raise ContextTerminated(msg=self._failure)

    # Messages

    def send(self, payload: Payload, flags: int = 0) -> None:
        """Send one part; SNDMORE says that more of the message follow.

        Again when there is no room: at once with DONTWAIT, else after SNDTIMEO.
        """
        if self._commands or self._failure is not None or self.closed:
            self._enter()
        part = (payload, MORE if flags & _SNDMORE else 0)
        if not self.xsend(part):
            self._wait(lambda: self.xsend(part) or None, flags, self.options.sndtimeo)

    def recv(self, flags: int = 0) -> Part:
        """Receive one part.  Again when there is none: with DONTWAIT, else after RCVTIMEO."""
        if self._commands or self._failure is not None or self.closed:
            self._enter()
        part = self.xrecv()
        if part is None:
            part = self._wait(self.xrecv, flags, self.options.rcvtimeo)
        self.rcvmore = bool(part[1] & MORE)
        return part

    def _wait(self, attempt: Callable[[], R | None], flags: int, timeout_ms: int) -> R:
        if flags & _DONTWAIT or timeout_ms == 0:
            raise Again
        deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        while True:
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._await_command(remaining)
            result = attempt()
            if result is not None:
                return result

    def _await_command(self, timeout: float | None) -> None:
        try:
            command = self.mailbox.recv(timeout)
        except MailboxClosed:
            raise ZMQError(ENOTSOCK) from None  # closed under us, against the rules
        if command is None:
            raise Again
        command.execute()
        self._enter()

    def events(self) -> int:
        """What could be done now: POLLIN, POLLOUT, both or none.  Silences the descriptor."""
        self._enter()
        self.process_all_commands()
        self._enter()
        has_in = PollEvent.POLLIN if self.xhas_in() else 0
        return int(has_in | (PollEvent.POLLOUT if self.xhas_out() else 0))

    # Options

    def getsockopt(self, option: int) -> Value:
        """The value of an option; EINVAL when it is unknown."""
        self._enter()
        if option == Opt.EVENTS:
            return self.events()
        if option == Opt.FD:
            return self.mailbox.fileno()
        if option == Opt.RCVMORE:
            return int(self.rcvmore)
        if option == Opt.TYPE:
            return int(self.kind)
        if option in (Opt.THREAD_SAFE, Opt.MECHANISM):
            return 0
        return self.options.get(option)

    def setsockopt(self, option: int, value: object) -> None:
        """Set an option; EINVAL for a bad one or a bad value, TypeError for a bad type."""
        self._enter()
        stored = self.options.set(option, value)
        if option in (Opt.SUBSCRIBE, Opt.UNSUBSCRIBE, Opt.XPUB_WELCOME_MSG):
            self.xsubscription(option, bytes(stored) if isinstance(stored, bytes) else b"")
        elif option in (Opt.SNDHWM, Opt.RCVHWM):
            for pipe in list(self._pipes):
                pipe.set_hwms(*self.hwms())
        elif option == Opt.LINGER:
            self.linger_ms = int(stored)

    def hwms(self) -> tuple[int, int]:
        """The (send, receive) high-water marks."""
        return self.options.number(Opt.SNDHWM), self.options.number(Opt.RCVHWM)

    # Addresses

    def bind(self, address: str) -> None:
        """Make `address` reach this socket; what waited for it is connected."""
        self._enter()
        check_address(address)
        endpoint = Endpoint(
            self, self.hwms(), self.wants_routing_id, self.options.data(Opt.ROUTING_ID)
        )
        for pending in self._ctx.bind(address, endpoint):
            self._adopt(pending)
        self.options.store(Opt.LAST_ENDPOINT, address.encode())

    def _adopt(self, pending: Pending) -> None:
        # The bound end is ours since the hand-over; the other end learns our marks by command.
        pipe, send_hwm, receive_hwm = pending.bind_pipe, *self.hwms()
        pipe.set_own_hwms(send_hwm, receive_hwm)
        pipe.set_peer_hwms(*pending.hwms)
        pending.socket.mailbox.send(PipeHwm(pending.connect_pipe, send_hwm, receive_hwm))
        if not self.wants_routing_id and not pipe.conflate:
            pipe.read()  # the peer could not know
        if pending.wants_routing_id:
            pipe.write((self.options.data(Opt.ROUTING_ID), ROUTING_ID))
            pipe.flush()
        self.attach_pipe(pipe, connecting=False)

    def connect(self, address: str) -> None:
        """Connect to `address`, now or as soon as somebody binds it."""
        self._enter()
        check_address(address)
        conflate = self.conflatable and bool(self.options.number(Opt.CONFLATE))
        here, there = make_pipes(self._ctx, self.hwms(), conflate=conflate)
        here.mailbox = self.mailbox
        pending = Pending(self, here, there, self.hwms(), self.wants_routing_id)
        own_id = (self.options.data(Opt.ROUTING_ID), ROUTING_ID)
        endpoint = self._ctx.connect(address, pending, own_id)
        if endpoint is not None:
            self._meet(endpoint, pending, own_id)
        self._connected.setdefault(address, []).append(here)
        self.attach_pipe(here, connecting=True)
        self.options.store(Opt.LAST_ENDPOINT, address.encode())

    def _meet(self, endpoint: Endpoint, pending: Pending, own_id: Part) -> None:
        # Both ends are ours until the bound one is announced by the command.
        here, there = pending.connect_pipe, pending.bind_pipe
        here.set_peer_hwms(*endpoint.hwms)
        there.set_own_hwms(*endpoint.hwms)
        there.set_peer_hwms(*pending.hwms)
        there.mailbox = endpoint.socket.mailbox
        if endpoint.wants_routing_id and not here.conflate:
            here.write(own_id)
            here.flush()
        if self.wants_routing_id:
            there.write((endpoint.routing_id, ROUTING_ID))
            there.flush()
        endpoint.socket.mailbox.send(BindCommand(endpoint.socket, there))

    def unbind(self, address: str) -> None:
        """Free `address`; connections stay.  ENOENT when it was not bound."""
        self._enter()
        check_address(address)
        self._ctx.unbind(address, self)

    def disconnect(self, address: str) -> None:
        """End all connections made to `address`.  ENOENT when there is none."""
        self._enter()
        check_address(address)
        pipes = self._connected.pop(address, [])
        if not pipes:
            raise ZMQError(ENOENT)
        self._ctx.withdraw(address, self)
        for pipe in pipes:
            pipe.terminate(True)

    # Pipes

    def attach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:
        """Take `pipe`, one end of a new connection."""
        pipe.sink = self
        self._pipes[pipe] = None
        self.xattach_pipe(pipe, connecting=connecting)
        if self.terminating:
            self.register_term_acks(1)
            pipe.terminate(False)

    def read_activated(self, pipe: Pipe) -> None:
        """See `Sink`."""
        self.xread_activated(pipe)

    def write_activated(self, pipe: Pipe) -> None:
        """See `Sink`."""
        self.xwrite_activated(pipe)

    def pipe_terminated(self, pipe: Pipe) -> None:
        """See `Sink`."""
        self.xpipe_terminated(pipe)
        del self._pipes[pipe]
        for address, pipes in list(self._connected.items()):
            if pipe in pipes:
                pipes.remove(pipe)
                if not pipes:
                    del self._connected[address]
        if self.terminating:
            self.unregister_term_ack()

    # The end

    def close(self) -> None:
        """Hand the socket to the reaper, for good.  Idempotent; from a finalizer too."""
        if self.closed:
            return
        self.closed = True
        if self._failure != FORKED:
            self._reaper.mailbox.send(Reap(self._reaper, self))

    def disown(self) -> None:
        """In a forked child: this socket is the parent's."""
        self._failure = FORKED

    def process_term(self, linger_ms: int) -> None:
        """End all pipes; `linger_ms` is of no effect within a process."""
        self._ctx.unbind_all(self)
        self.register_term_acks(len(self._pipes))
        for pipe in list(self._pipes):
            pipe.terminate(False)
        super().process_term(linger_ms)

    # What kinds of sockets do in their own way

    def xsend(self, part: Part) -> bool:  # noqa: ARG002
        """Send `part`; False when there is no room."""
        raise ZMQError(ENOTSUP)

    def xrecv(self) -> Part | None:
        """The next part, None when there is none."""
        raise ZMQError(ENOTSUP)

    def xhas_in(self) -> bool:
        """Whether `xrecv` would give a part."""
        return False

    def xhas_out(self) -> bool:
        """Whether `xsend` would take a part."""
        return False

    def xattach_pipe(self, pipe: Pipe, *, connecting: bool) -> None:
        """A pipe was added."""
        raise NotImplementedError

    def xread_activated(self, pipe: Pipe) -> None:
        """`pipe` can be read again."""

    def xwrite_activated(self, pipe: Pipe) -> None:
        """`pipe` can be written again."""

    def xpipe_terminated(self, pipe: Pipe) -> None:
        """`pipe` is gone."""
        raise NotImplementedError

    def xsubscription(self, option: int, value: bytes) -> None:  # noqa: ARG002
        """SUBSCRIBE and its kin, where they mean something."""
        raise ZMQError(EINVAL)


def check_address(address: str) -> None:
    """EINVAL for what is no address, EPROTONOSUPPORT for one of another transport."""
    scheme, separator, name = address.partition("://")
    if not separator or not name or not scheme:
        raise ZMQError(EINVAL)
    if scheme != "inproc":
        raise ZMQError(EPROTONOSUPPORT)
