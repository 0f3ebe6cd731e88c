"""Pipe: one end of a two-way pipe of messages between two sockets.

Who may call it: each end belongs to the thread of its socket, its `sink`, and speaks to the other
end by commands only.  While a connection waits for its bind, the bound end belongs to nobody: its
`mailbox` is None, and commands to it are kept by the context (see `mq.ctx`).

How a pipe ends: each end writes a delimiter after its last message, `PipeTerm` and `PipeTermAck`
go both ways, and an end that was told so (`delay`) first reads what is left before the delimiter.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from mq.command import ActivateRead, ActivateWrite, Command, PipeHwm, PipeTerm, PipeTermAck
from mq.conflate import ConflatePipe
from mq.message import DELIMITER, MORE, ROUTING_ID, Part
from mq.ypipe import Empty, YPipe

if TYPE_CHECKING:
    from mq.ctx import Ctx
    from mq.mailbox import Mailbox


class Sink(Protocol):
    """Who is told of a pipe's events, in the pipe's own thread."""

    def read_activated(self, pipe: Pipe) -> None:
        """There is something to read again."""

    def write_activated(self, pipe: Pipe) -> None:
        """There is room again."""

    def pipe_terminated(self, pipe: Pipe) -> None:
        """The pipe is gone."""


class State(Enum):
    """How far the end of a pipe has come, as seen from one side."""

    ACTIVE = auto()
    DELIMITER_RECEIVED = auto()  # the delimiter was read before the PipeTerm arrived
    WAITING_FOR_DELIMITER = auto()  # PipeTerm came first, and messages may be left
    TERM_ACK_SENT = auto()  # all read and acknowledged; the final ack is awaited
    TERM_REQ_SENT1 = auto()  # we asked, and wait for the ack
    TERM_REQ_SENT2 = auto()  # we asked, and so did the peer


class Pipe:
    """An end of a pipe.  High-water marks count messages, not parts; 0 is no limit.

    `send_hwm` and `receive_hwm` are this end's own marks.  What may be under way is this end's
    `send_hwm` plus the other's `receive_hwm`, once that is known.
    """

    __slots__ = (
        "_activate_read",
        "_credited",
        "_ctx",
        "_delay",
        "_flushing",
        "_hwm",
        "_in_active",
        "_in_pipe",
        "_lwm",
        "_messages_read",
        "_messages_written",
        "_out_active",
        "_out_pipe",
        "_own_hwms",
        "_peer",
        "_peer_hwms",
        "_state",
        "conflate",
        "mailbox",
        "peer_routing_id",
        "sink",
    )

    def __init__(
        self,
        ctx: Ctx,
        in_pipe: YPipe[Part] | ConflatePipe[Part],
        out_pipe: YPipe[Part] | ConflatePipe[Part],
        hwms: tuple[int, int],
        *,
        conflate: bool,
    ) -> None:
        self._ctx = ctx
        self._in_pipe: YPipe[Part] | ConflatePipe[Part] | None = in_pipe
        self._out_pipe: YPipe[Part] | ConflatePipe[Part] | None = out_pipe
        self._in_active = True
        self._out_active = True
        self._state = State.ACTIVE
        self._delay = True
        self._messages_read = 0
        self._messages_written = 0
        self._credited = 0  # how many of our messages the peer has told us it read
        self._own_hwms = hwms  # (send, receive)
        self._peer_hwms: tuple[int, int] | None = None  # unknown before the bind
        self._hwm = 0
        self._lwm = 0
        self._flushing = False
        self._peer: Pipe | None = None
        self._activate_read: ActivateRead | None = None
        self.conflate = conflate
        self.mailbox: Mailbox[Command] | None = None
        self.sink: Sink | None = None
        self.peer_routing_id = b""  # how a ROUTER calls the peer

    def join(self, peer: Pipe) -> None:
        """Make `peer` the other end; once, before either end is used."""
        self._peer = peer
        self._activate_read = ActivateRead(peer)
        self._set_marks()

    # Reading

    def check_read(self) -> bool:
        """Whether a part can be read."""
        in_pipe = self._in_pipe
        if not self._in_active or in_pipe is None or not self._readable():
            return False
        if not in_pipe.check_read():
            self._in_active = False
            return False
        if in_pipe.probe()[1] & DELIMITER:
            in_pipe.read()
            self._process_delimiter()
            return False
        return True

    def read(self) -> Part | None:
        """The next part; None when there is none."""
        in_pipe = self._in_pipe
        if not self._in_active or in_pipe is None or not self._readable():
            return None
        if not in_pipe.check_read():
            self._in_active = False
            return None
        part = in_pipe.read()
        flags = part[1]
        if flags:
            if flags & DELIMITER:
                self._process_delimiter()
                return None
            if flags & (MORE | ROUTING_ID):
                return part
        read = self._messages_read + 1
        self._messages_read = read
        if self._lwm and not read % self._lwm:
            self._send(ActivateWrite(self._other(), read))
        return part

    def _readable(self) -> bool:
        state = self._state
        return state is State.ACTIVE or state is State.WAITING_FOR_DELIMITER

    # Writing

    def check_write(self) -> bool:
        """Whether a message can be written."""
        if not self._out_active or self._state is not State.ACTIVE:
            return False
        hwm = self._hwm
        if hwm and self._messages_written - self._credited >= hwm:
            self._out_active = False
            return False
        return True

    def write(self, part: Part) -> bool:
        """Write `part`, unless the pipe is full or ending.  A message begun can be completed."""
        if not self.check_write():
            return False
        flags = part[1]
        assert self._out_pipe is not None
        if flags & MORE:
            self._out_pipe.write(part, True)
        else:
            self._out_pipe.write(part)
            if not flags & ROUTING_ID:
                self._messages_written += 1
        return True

    def rollback(self) -> None:
        """Take back the parts of a message that was not completed."""
        out_pipe = self._out_pipe
        if out_pipe is None:
            return
        try:
            while True:
                out_pipe.unwrite()
        except Empty:
            pass

    def flush(self) -> None:
        """Let the peer see all complete messages, and wake it if it sleeps."""
        out_pipe = self._out_pipe
        if out_pipe is None:
            return
        # A flush that was interrupted may have left its wake-up unsent: then it is owed still.
        owed = self._flushing
        self._flushing = True
        if not out_pipe.flush() or owed:
            assert self._activate_read is not None
            self._send(self._activate_read)
        self._flushing = False

    # High-water marks

    def set_hwms(self, send_hwm: int, receive_hwm: int) -> None:
        """Change this end's own marks, while connected if need be."""
        self.set_own_hwms(send_hwm, receive_hwm)
        if self._state is State.ACTIVE and self._peer is not None:
            self._send(PipeHwm(self._peer, send_hwm, receive_hwm))

    def set_own_hwms(self, send_hwm: int, receive_hwm: int) -> None:
        """Change this end's own marks without telling the other end."""
        self._own_hwms = (send_hwm, receive_hwm)
        self._set_marks()

    def set_peer_hwms(self, send_hwm: int, receive_hwm: int) -> None:
        """Learn the other end's marks, from now on part of both limits."""
        self._peer_hwms = (send_hwm, receive_hwm)
        self._set_marks()

    def process_pipe_hwm(self, send_hwm: int, receive_hwm: int) -> None:
        """See `PipeHwm`."""
        self.set_peer_hwms(send_hwm, receive_hwm)
        # The writer's mark may now be below the credit that is due: without this it would wait for
        # a low-water mark that a smaller pipe never reaches.
        if self._state is State.ACTIVE:
            self._send(ActivateWrite(self._other(), self._messages_read))
        if not self._out_active:
            self._activate_write()

    def _set_marks(self) -> None:
        if self.conflate:
            return  # one slot, no limit
        send_hwm, receive_hwm = self._own_hwms
        if self._peer_hwms is None:
            self._hwm, inbound = send_hwm, receive_hwm
        else:
            peer_send, peer_receive = self._peer_hwms
            self._hwm = send_hwm + peer_receive if send_hwm and peer_receive else 0
            inbound = peer_send + receive_hwm if peer_send and receive_hwm else 0
        self._lwm = (inbound + 1) // 2

    # Commands from the other end

    def process_activate_read(self) -> None:
        """See `ActivateRead`."""
        if not self._in_active and self._readable():
            self._in_active = True
            if self.sink is not None:
                self.sink.read_activated(self)

    def process_activate_write(self, messages_read: int) -> None:
        """See `ActivateWrite`."""
        self._credited = messages_read
        if not self._out_active:
            self._activate_write()

    def _activate_write(self) -> None:
        if self._state is not State.ACTIVE:
            return
        self._out_active = True
        if self.sink is not None and self.check_write():
            self.sink.write_activated(self)

    # The end

    @property
    def state(self) -> State:
        """How far the end has come."""
        return self._state

    def set_nodelay(self) -> None:
        """End at once when the peer does: nobody here reads what it sent last."""
        self._delay = False

    def terminate(self, delay: bool) -> None:
        """Ask the other end to end the pipe; with `delay`, what it sent is read first."""
        self._delay = delay
        state = self._state
        if state is State.ACTIVE or state is State.DELIMITER_RECEIVED:
            self._state = State.TERM_REQ_SENT1
            self._send(PipeTerm(self._other()))
        elif state is State.WAITING_FOR_DELIMITER:
            if not delay:
                self._acknowledge(State.TERM_ACK_SENT)
        else:
            return
        self._out_active = False
        if self._out_pipe is not None:
            self.rollback()
            self._out_pipe.write((b"", DELIMITER))
            self.flush()

    def process_pipe_term(self) -> None:
        """See `PipeTerm`."""
        if self._state is State.ACTIVE and self._delay:
            self._state = State.WAITING_FOR_DELIMITER
        elif self._state is State.TERM_REQ_SENT1:
            self._acknowledge(State.TERM_REQ_SENT2)
        else:
            assert self._state in (State.ACTIVE, State.DELIMITER_RECEIVED), self._state
            self._acknowledge(State.TERM_ACK_SENT)

    def process_pipe_term_ack(self) -> None:
        """See `PipeTermAck`."""
        sink, self.sink = self.sink, None
        if self._state is State.TERM_REQ_SENT1:
            self._out_pipe = None
            self._send(PipeTermAck(self._other()))
        else:
            assert self._state in (State.TERM_ACK_SENT, State.TERM_REQ_SENT2), self._state
        self._in_pipe = None
        # Last: the sink may be waiting for nothing else, and go.
        if sink is not None:
            sink.pipe_terminated(self)

    def _process_delimiter(self) -> None:
        if self._state is State.ACTIVE:
            self._state = State.DELIMITER_RECEIVED
        else:
            self.rollback()
            self._acknowledge(State.TERM_ACK_SENT)

    def _acknowledge(self, state: State) -> None:
        self.rollback()
        self._state = state
        self._out_pipe = None
        self._send(PipeTermAck(self._other()))

    def _other(self) -> Pipe:
        assert self._peer is not None
        return self._peer

    def _send(self, command: Command) -> None:
        mailbox = self._other().mailbox
        if mailbox is None:
            self._ctx.send_to_pending(self._other(), command)
        else:
            mailbox.send(command)

    def __repr__(self) -> str:
        return (
            f"<Pipe {self._state.name} read {self._messages_read} written {self._messages_written}"
            f" credited {self._credited} hwm {self._hwm} lwm {self._lwm}>"
        )


def make_pipes(ctx: Ctx, hwms: tuple[int, int], *, conflate: bool) -> tuple[Pipe, Pipe]:
    """The connecting end of a new pipe, with its (send, receive) marks, and the bound end."""
    here: YPipe[Part] | ConflatePipe[Part]
    there: YPipe[Part] | ConflatePipe[Part]
    if conflate:
        here, there = ConflatePipe(), ConflatePipe()
    else:
        here, there = YPipe(), YPipe()
    connect_pipe = Pipe(ctx, here, there, hwms, conflate=conflate)
    bind_pipe = Pipe(ctx, there, here, (0, 0), conflate=conflate)
    connect_pipe.join(bind_pipe)
    bind_pipe.join(connect_pipe)
    return connect_pipe, bind_pipe
